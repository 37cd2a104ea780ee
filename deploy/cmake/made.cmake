# Run by "cmake --install" (install.cmake): makes man pages, completions and units in the folder `made`. `bin` is where the programs will be.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE "${made}")
file(MAKE_DIRECTORY "${made}/man1" "${made}/man8" "${made}/units")

# Writes what a program of the build prints.
function(fg_printed file program)
  execute_process(COMMAND "${build}/${program}" ${ARGN} OUTPUT_FILE "${made}/${file}" COMMAND_ERROR_IS_FATAL ANY)
endfunction()

fg_printed(commands flamegrid completion words)
file(STRINGS "${made}/commands" commands)
list(REMOVE_ITEM commands server agent) # programs with settings: section 8
fg_printed(man1/flamegrid.1 flamegrid man)
foreach(command IN LISTS commands)
  fg_printed(man1/flamegrid-${command}.1 flamegrid man ${command})
endforeach()
fg_printed(man8/flamegrid-agent.8 flamegrid man agent)
foreach(shell bash zsh fish)
  fg_printed(flamegrid.${shell} flamegrid completion ${shell})
endforeach()

file(READ "${source}/systemd/service.in" template)
foreach(unit IN LISTS units)
  string(REPLACE "|" ";" unit "${unit}")
  list(GET unit 0 NAME)
  list(GET unit 1 WHAT)
  list(GET unit 2 COMMAND)
  list(GET unit 3 STATE)
  set(COMMAND "${bin}/${COMMAND} --config /etc/flamegrid/flamegrid.yaml")
  string(CONFIGURE "${template}" text @ONLY)
  file(WRITE "${made}/units/${NAME}.service" "${text}")
  if(NAME STREQUAL "flamegrid-server")
    fg_printed(man8/${NAME}.8 flamegrid man server)
  else()
    fg_printed(man8/${NAME}.8 ${NAME} --help=man)
  endif()
endforeach()
