/* In place of pages about profiles for whoever may not read any: what is missing, and how to get it. The first token of a server is such. */

import { Link } from "wouter";

import { rightsOf, useWho } from "../api/who";
import { useElsewhere } from "../state/elsewhere";

export function NoRead() {
  const who = useWho();
  const elsewhere = useElsewhere();
  if (who.state !== "in") return null;
  const { governs } = rightsOf(who);
  return (
    <section className="card start" aria-label="No right to read">
      <h1>Profiles need the scope read</h1>
      <p>
        You are {who.name || who.subject}, and may: {who.scopes.join(", ") || "nothing"}. That does not include looking at profiles.
      </p>
      {governs ? (
        <>
          <p>
            {who.mode === "token" && who.csrf === "" ? "A token that governs a server reads no profiles, so a lost one shows none. " : ""}
            Make a token for people who look at profiles, and another one for the agents that send them.
          </p>
          <div className="row">
            <Link className="btn main" href={elsewhere("/tokens", { form: "reader" })}>
              Make a token that reads
            </Link>
            <Link className="btn" href={elsewhere("/tokens", { form: "create" })}>
              Make a token for agents
            </Link>
            <Link className="btn" href={elsewhere("/tenants", {})}>
              See the tenants
            </Link>
          </div>
        </>
      ) : (
        <p>
          {who.csrf === ""
            ? "Ask whoever gave you access for a token with the scope read."
            : "Ask whoever governs this server for a role that may query, such as viewer."}
        </p>
      )}
    </section>
  );
}
