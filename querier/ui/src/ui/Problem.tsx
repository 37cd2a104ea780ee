/* What went wrong and what to do about it, by the class of the error; the server's own words below. */

import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect, useRef, useState } from "react";

import { ApiError } from "../api/client";
import { WHO_KEY, useWho } from "../api/who";
import { useRoute } from "../state/route";
import { Icon } from "./Icon";
import { SignIn } from "./SignIn";
import { tenantsOf } from "./Who";

interface Advice {
  title: string;
  text: string;
  retry: boolean;
}

/* `said` is the server's text: it names the limit and the setting, so it is part of the advice where it is about one. */
function adviceFor(fault: unknown, wrong: string): Advice {
  if (!(fault instanceof ApiError))
    return { title: "This page has a fault", text: "Please report it with the details. Reloading the page may help.", retry: true };
  switch (true) {
    case fault.status === 0:
      return {
        title: "The server cannot be reached",
        text: "It is stopped, or the network between is down. Nothing of the page is lost.",
        retry: true,
      };
    case fault.status === 400:
      return { title: wrong, text: fault.message, retry: false };
    case fault.status === 403:
      return { title: "Access denied", text: fault.message, retry: false };
    case fault.status === 404:
      return { title: "There is no such thing", text: fault.message, retry: false };
    case fault.status === 409:
      return { title: "It is not as it was", text: fault.message, retry: false };
    case fault.status === 413:
      return { title: "Too large", text: fault.message, retry: false };
    case fault.status === 422 || (fault.status === 429 && fault.retryAfterS === null):
      return { title: "A limit was reached", text: `${fault.message}. A shorter time range or more filters need less.`, retry: true };
    case fault.status === 429:
      return {
        title: "The server is busy, or a limit was reached",
        text: `${fault.message}. A shorter time range or more filters need less.`,
        retry: true,
      };
    case fault.status === 501:
      return { title: "This server does not offer it", text: fault.message, retry: false };
    case fault.status === 503 || fault.status === 502:
      return {
        title: "Not available at the moment",
        text: "Some part of the server that is needed did not answer. Such trouble passes, or the status page shows what it is.",
        retry: true,
      };
    case fault.status === 504:
      return { title: "It took too long", text: "A shorter time range or more filters need less time.", retry: true };
    default:
      return { title: "The server has a fault", text: "Its log has the cause. The details below help who runs it.", retry: true };
  }
}

/* Begins again with each fault: what had been shown before stays in error while it is asked for again, and so does this. */
function Countdown({ fault, seconds, onEnd }: { fault: unknown; seconds: number; onEnd: () => void }) {
  const [count, setCount] = useState({ fault, left: seconds });
  const left = count.fault === fault ? count.left : seconds;
  const end = useRef(onEnd);
  useEffect(() => {
    end.current = onEnd;
  });
  useEffect(() => {
    if (left <= 0) return;
    const timer = setTimeout(() => {
      setCount({ fault, left: left - 1 });
      if (left === 1) end.current();
    }, 1000);
    return () => clearTimeout(timer);
  }, [fault, left]);
  return (
    <span className="note" role="timer">
      tries again in {left} s
    </span>
  );
}

/* The server has said what is missing; this is what one has instead. */
function Denied() {
  const { params, set } = useRoute();
  const who = useWho();
  if (who.state !== "in") return <p>Ask who runs the server for the right to read this tenant.</p>;
  const { names, current } = tenantsOf(who, params.tenant);
  return (
    <>
      <p>
        You are {who.name || who.subject}, {current === "" ? "without a tenant" : `as tenant ${current}`}
        {who.scopes.length === 0 ? "" : `, and may ${who.scopes.join(", ")}`}.
      </p>
      <div className="row">
        {names
          .filter((name) => name !== current)
          .map((name) => (
            <button key={name} type="button" className="btn" onClick={() => set({ tenant: name })}>
              Go to tenant {name}
            </button>
          ))}
      </div>
    </>
  );
}

/* A session may end at any time: then all of the page says so. */
function LoggedOut({ fault }: { fault: ApiError }) {
  const client = useQueryClient();
  useEffect(() => void client.invalidateQueries({ queryKey: WHO_KEY }), [client]);
  return <SignIn reason={fault.message} login={fault.login} />;
}

interface Props {
  fault: unknown;
  onRetry?: () => void;
  wrong?: string; // the title where the request is wrong
  children?: ReactNode;
}

export function Problem({ fault, onRetry, wrong = "The query is wrong", children }: Props) {
  if (fault instanceof ApiError && fault.status === 401) return <LoggedOut fault={fault} />;
  const advice = adviceFor(fault, wrong);
  const after = fault instanceof ApiError ? fault.retryAfterS : null;
  return (
    <div className="problem" role="alert">
      <h2>
        <Icon name="warn" size={18} />
        {advice.title}
      </h2>
      <p>{advice.text}</p>
      {fault instanceof ApiError && fault.status === 403 && <Denied />}
      <div className="row">
        {advice.retry && onRetry !== undefined && (
          <button type="button" className="btn" onClick={onRetry}>
            <Icon name="refresh" />
            Try again
          </button>
        )}
        {children}
        {advice.retry && onRetry !== undefined && after !== null && after > 1 && (
          <Countdown fault={fault} seconds={after} onEnd={onRetry} />
        )}
      </div>
      <details>
        <summary>Details</summary>
        <pre>
          {fault instanceof ApiError
            ? `${fault.status} ${fault.code}\n${fault.message}`
            : String(fault instanceof Error ? (fault.stack ?? fault) : fault)}
        </pre>
      </details>
    </div>
  );
}
