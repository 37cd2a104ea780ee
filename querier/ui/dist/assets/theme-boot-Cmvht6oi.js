// Before the first paint: the theme that was chosen, else that of the system.
(function () {
  var chosen = null;
  try {
    chosen = JSON.parse(localStorage.getItem("flamegrid.settings") || "{}").theme;
  } catch (_) {
    // A browser that keeps nothing, or an older form: the system's theme.
  }
  if (chosen !== "dark" && chosen !== "light") chosen = matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
  document.documentElement.dataset.theme = chosen;
})();
