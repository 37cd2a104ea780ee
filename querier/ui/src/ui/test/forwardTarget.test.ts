import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";

import { Row, type Target } from "../ForwardTarget";

const TARGET: Target = {
  name: "eu/west",
  url: "https://west.example",
  state: "ok",
  error: "",
  pendingProfiles: 0,
  pendingBytes: 0,
  queueMaxBytes: 10 * 1024 ** 3,
  oldestPendingSeconds: 0,
  sentProfiles: 12_345,
  deadProfiles: 0,
  droppedProfiles: { full: 0, refused: 0, expired: 0, gone: 0, operator: 0 },
};

const nothing = (): void => undefined;

/* The texts of the cells, with plain blanks. */
function cells(target: Partial<Target>): string[] {
  const row = createElement(Row, { target: { ...TARGET, ...target }, busy: false, onChange: nothing, onDead: nothing, onDrop: nothing });
  return renderToStaticMarkup(row)
    .split("</td>")
    .slice(0, -1)
    .map((cell) => cell.replace(/<[^>]*>/g, "").replace(/\s/g, " "));
}

test("a target to which everything was sent", () => {
  expect(cells({})).toEqual([
    "eu/west https://west.example",
    "ok",
    "0",
    "0 B of 10 GiB",
    "–",
    "12.3 k",
    "0",
    "0",
    "Pause eu/west Drop what is pending for eu/west",
  ]);
});

test("a target that is away", () => {
  const row = cells({ state: "retrying", error: "status 503", pendingProfiles: 2, pendingBytes: 2048, oldestPendingSeconds: 90 });
  expect(row.slice(0, 5)).toEqual(["eu/west https://west.examplestatus 503", "trying again", "2", "2 KiB of 10 GiB", "1 min 30 s"]);
});

test("what a target lost is one number, and a paused one can be resumed", () => {
  const row = cells({ state: "paused", deadProfiles: 2, droppedProfiles: { ...TARGET.droppedProfiles, full: 3, operator: 4 } });
  expect([row[1], row[6], row[7]]).toEqual(["paused", "7", "2 refused by eu/west"]);
  expect(row[8]).toMatch(/^Resume eu.west/);
});
