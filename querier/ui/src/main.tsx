import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Router } from "wouter";

import "./theme.css";
import { App } from "./app";
import { IdentityProvider } from "./state/identity";
import { NowProvider } from "./state/now";
import { BASE } from "./state/route";
import { startTheme } from "./state/settings";

startTheme();
createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <Router base={BASE}>
      <IdentityProvider>
        <NowProvider>
          <App />
        </NowProvider>
      </IdentityProvider>
    </Router>
  </StrictMode>,
);
