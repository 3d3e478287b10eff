// What the sessions of all clients share: input as JSON, output as JSON, and patience.
"use strict";

const { createInterface } = require("node:readline");

const PATIENCE_MS = 120_000;

/** Bytes as a test in another language reads them; null stays null. */
const toText = (bytes) => (bytes == null ? null : Buffer.from(bytes).toString("base64"));
const toBytes = (text) => (text == null ? null : Buffer.from(text, "base64"));

/** Waits until something holds; throws after a while. */
async function until(what, condition) {
  const deadline = Date.now() + PATIENCE_MS;
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`waited in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const byPlace = (one, two) => one.partition - two.partition || one.offset - two.offset;

/** The code of an error, wherever a client keeps what the broker answered. */
async function refusal(promise) {
  try {
    await promise;
  } catch (error) {
    return codes(error);
  }
  return [];
}

function codes(error) {
  const own = typeof error.apiCode === "number" ? error.apiCode : error.code;
  const inner = [...(error.errors ?? []), ...(error.cause ? [error.cause] : [])].flatMap(codes);
  return (typeof own === "number" ? [own] : []).concat(inner);
}

/** Holds a session for each line of the input, one after the other, and prints what it returns. */
async function main(sessions) {
  const plain = (_, value) => (typeof value === "bigint" ? Number(value) : value);
  for await (const line of createInterface({ input: process.stdin })) {
    const { address, session, given } = JSON.parse(line);
    const output = await sessions[session](address, given);
    process.stdout.write(JSON.stringify(output, plain) + "\n");
  }
  process.exit(0);
}

function start(sessions) {
  main(sessions).catch((error) => {
    console.error(error);
    process.exit(1);
  });
}

module.exports = { byPlace, refusal, start, toBytes, toText, until };
