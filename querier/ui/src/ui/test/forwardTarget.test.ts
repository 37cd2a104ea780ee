import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";

import { Row, type Target } from "../ForwardTarget";
import { type Resend, inputOf, previewText, progressOf, timeOf } from "../resend";

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
  const row = createElement(Row, {
    target: { ...TARGET, ...target },
    busy: false,
    onChange: nothing,
    onDead: nothing,
    onDrop: nothing,
    onResend: nothing,
    onEndResend: nothing,
  });
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
    "Pause eu/west Resend to eu/west Drop what is pending for eu/west",
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

const RESEND: Resend = {
  state: "sending",
  fromMs: 1000,
  untilMs: 3000,
  atMs: 1500,
  tenant: "shop",
  sentProfiles: 40,
  knownProfiles: 30,
  refusedProfiles: 0,
  lostProfiles: 2,
  incomplete: false,
};

test("a resend under way says how far it is and can be stopped", () => {
  const row = cells({ resend: RESEND });
  expect(row[0]).toBe("eu/west https://west.example Resend of shop: 40 sent, 30 of them known there; 2 only in rollups Stop the resend");
  expect(cells({ resend: { ...RESEND, heldTenants: 3 } })[0]).toMatch(/known there; the target does not take 3 of the tenants now;/);
  expect(cells({ resend: { ...RESEND, heldTenants: 0 } })[0]).toBe(row[0]);
  expect(progressOf(RESEND)).toBe(0.25);
  expect(progressOf({ ...RESEND, atMs: undefined })).toBe(0);
  expect(progressOf({ ...RESEND, state: "done", atMs: undefined })).toBe(1);
});

test("a resend that has ended leaves its numbers", () => {
  const row = cells({ resend: { ...RESEND, state: "done", incomplete: true } });
  expect(row[0]).toMatch(/Last resend: 40 sent.*ended early/);
  expect(row[0]).not.toMatch(/Stop/);
});

test("times of a resend are UTC, and its preview counts", () => {
  expect(inputOf(1_700_000_000_000)).toBe("2023-11-14T22:13");
  expect(timeOf("2023-11-14T22:13")).toBe(1_699_999_980_000);
  expect(timeOf("")).toBeNaN();
  expect(previewText({ profiles: 1, lostProfiles: 0 })).toBe("About 1 profile in blocks, before the target's selector and rules.");
  expect(previewText({ profiles: 0, lostProfiles: 5 })).toMatch(/About 0 profiles.* 5 more are only in rollups/);
});
