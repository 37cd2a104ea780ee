import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Router } from "wouter";

import "./theme.css";
import { isPassing } from "./api/queries";
import { App } from "./app";
import { NowProvider } from "./state/now";
import { BASE } from "./state/route";
import { startTheme } from "./state/settings";

const RETRIES = 2;

const client = new QueryClient({
  defaultOptions: {
    queries: {
      retry: (failed, fault) => failed < RETRIES && isPassing(fault),
      refetchOnWindowFocus: false,
    },
  },
});

startTheme();
createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <Router base={BASE}>
        <NowProvider>
          <App />
        </NowProvider>
      </Router>
    </QueryClientProvider>
  </StrictMode>,
);
