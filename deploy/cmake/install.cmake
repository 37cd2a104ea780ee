# What "cmake --install" puts where, below CMAKE_INSTALL_PREFIX and DESTDIR: programs, man pages, completions, systemd units, an example
# of settings, and licences. Man pages and completions are what the programs print, and units name the prefix, so both are
# made when they are installed. Nothing goes to /etc or /var: that is the packager's decision (deploy/debian).

include(GNUInstallDirs)

set(FG_PROGRAMS flamegrid flamegrid-distributor flamegrid-ingester flamegrid-querier flamegrid-compactor)
install(TARGETS ${FG_PROGRAMS} RUNTIME)

# Units: a name, what it is, its program with arguments, its state folder below /var/lib, the default of its memory_max_bytes in MiB.
set(FG_UNITS
  "flamegrid-server|all services in one process|flamegrid server|flamegrid|1024"
  "flamegrid-agent|takes profiles, and forwards them|flamegrid agent|flamegrid-agent|128"
  "flamegrid-distributor|takes profiles, and forwards queries|flamegrid-distributor|flamegrid-distributor|1024"
  "flamegrid-ingester|keeps new profiles|flamegrid-ingester|flamegrid-ingester|1024"
  "flamegrid-querier|answers queries|flamegrid-querier|flamegrid-querier|1024"
  "flamegrid-compactor|merges blocks, and ends retention|flamegrid-compactor|flamegrid-compactor|1024")

set(FG_MADE "${CMAKE_BINARY_DIR}/installed") # what is made at the time of the installation
install(CODE "
  set(source \"${CMAKE_SOURCE_DIR}/deploy\")
  set(build \"${CMAKE_BINARY_DIR}\")
  set(made \"${FG_MADE}\")
  set(bin \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
  set(units \"${FG_UNITS}\")
  include(\"${CMAKE_CURRENT_LIST_DIR}/made.cmake\")")

install(DIRECTORY "${FG_MADE}/man1" "${FG_MADE}/man8" DESTINATION "${CMAKE_INSTALL_MANDIR}")
install(FILES "${FG_MADE}/flamegrid.bash" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" RENAME flamegrid)
install(FILES "${FG_MADE}/flamegrid.zsh" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" RENAME _flamegrid)
install(FILES "${FG_MADE}/flamegrid.fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
install(DIRECTORY "${FG_MADE}/units/" DESTINATION lib/systemd/system)
install(FILES deploy/systemd/flamegrid.sysusers DESTINATION lib/sysusers.d RENAME flamegrid.conf)
install(FILES deploy/systemd/flamegrid.yaml deploy/systemd/credentials.conf DESTINATION "${CMAKE_INSTALL_DOCDIR}/examples")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
# Of the libraries that deploy/deps built into the programs.
install(DIRECTORY "${FG_DEPS_DIR}/licences/" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
