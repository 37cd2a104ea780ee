/*
 * A profile as pprof: the one method whose answer is wanted as bytes, so its request is in protobuf, too
 * (proto/querier_v1.proto, SelectMergeProfileRequest).
 */

import { type Query, formatSelector } from "../state/selector";
import { send } from "./client";
import type { Span } from "./queries";

const VARINT = 0;
const BYTES = 2;

class Message {
  private readonly out: number[] = [];

  private varint(value: number): void {
    let rest = value;
    while (rest >= 128) {
      this.out.push(rest % 128 | 128); // milliseconds since 1970 have more than 32 bits
      rest = Math.floor(rest / 128);
    }
    this.out.push(rest);
  }

  number(field: number, value: number): void {
    this.varint(field * 8 + VARINT);
    this.varint(value);
  }

  bytes(field: number, value: Uint8Array): void {
    this.varint(field * 8 + BYTES);
    this.varint(value.length);
    for (const byte of value) this.out.push(byte);
  }

  text(field: number, value: string): void {
    this.bytes(field, new TextEncoder().encode(value));
  }

  finish(): Uint8Array<ArrayBuffer> {
    return Uint8Array.from(this.out);
  }
}

export function encodeRequest(query: Query, span: Span, callSite: readonly string[]): Uint8Array<ArrayBuffer> {
  const request = new Message();
  request.text(1, query.type);
  request.text(2, formatSelector(query.matchers));
  request.number(3, span.from);
  request.number(4, span.until);
  if (callSite.length > 0) {
    const selector = new Message();
    for (const name of callSite) {
      const location = new Message();
      location.text(1, name);
      selector.bytes(1, location.finish());
    }
    request.bytes(6, selector.finish());
  }
  return request.finish();
}

/* Whole profiles, never cut: compressed as go tool pprof and all others take it. */
export async function askPprof(query: Query, span: Span, callSite: readonly string[]): Promise<Blob> {
  const response = await send("querier.v1.QuerierService/SelectMergeProfile", {
    method: "POST",
    body: encodeRequest(query, span, callSite),
    headers: { "Content-Type": "application/proto" },
  });
  return new Response(response.body!.pipeThrough(new CompressionStream("gzip"))).blob();
}
