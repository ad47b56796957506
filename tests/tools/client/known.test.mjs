// The JavaScript client against docs/vectors/: node --test tests/tools/client/known.test.mjs
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";
import { Fold } from "../../../monitor/tools/page/static/known.js";

const FOLDER = new URL("../../../docs/vectors/", import.meta.url);
const TIMES = new Set(["as_of", "valid_until", "start", "end", "resumes_at"]);

/** Return an answer with snake_case names and times in ms. */
function normalize(answer) {
  const entries = Object.entries(answer).map(([name, value]) => {
    const key = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    if (TIMES.has(key)) return [key, value === null ? null : Date.parse(value)];
    return [key, key === "about" && value !== null ? normalize(value) : value];
  });
  return Object.fromEntries(entries);
}

for (const file of readdirSync(FOLDER).filter((name) => name.endsWith(".json"))) {
  const vector = JSON.parse(readFileSync(new URL(file, FOLDER), "utf8"));
  for (const committed of [true, false]) {
    test(`${file}: ${vector.description} (${committed ? "read_committed" : "read_uncommitted"})`, () => {
      let now = 0;
      const fold = new Fold({
        slot: vector.slot_seconds * 1000,
        finalFor: vector.final_for_seconds * 1000,
        locations: vector.locations,
        now: () => new Date(now),
      });
      for (const step of vector.steps) {
        for (const record of step.records ?? []) if (!(committed && record.aborted)) fold.apply(record);
        if (step.at) now = Date.parse(step.at);
        for (const [place, expected] of Object.entries(step.known ?? {})) {
          const found = JSON.parse(JSON.stringify(fold.get(place)));
          assert.deepEqual(normalize(found), normalize(expected), `${place} at ${step.at}`);
        }
      }
    });
  }
}

test("what is known changes with the clock alone", () => {
  let now = Date.parse("2026-01-05T08:00:05Z");
  const vector = JSON.parse(readFileSync(new URL("safe.json", FOLDER), "utf8"));
  const fold = new Fold({ slot: 3_600_000, now: () => now });
  const places = vector.steps.flatMap((step) => step.records ?? []).map((record) => fold.apply(record));
  assert.deepEqual(places, [["market"]]);
  const known = fold.get("market");
  assert.equal(known.state, "safe");
  now += 2 * 3_600_000;
  assert.deepEqual([known.state, known.reason, known.countAtMost], ["unknown", "too_old", null]);
  assert.throws(() => { known.state = "safe"; }, TypeError);
});

test("records and readings never throw", () => {
  const fold = new Fold({ slot: 1000 });
  const type = "org.location-monitor.over_time";
  for (const record of [undefined, null, 7, {}, { type: {} }, { type: "constructor" }, { type }, { type, data: [] }]) {
    assert.deepEqual(fold.apply(record), []);
  }
  assert.equal(fold.unreadable, 2);
  for (const id of ["market", "", undefined, null, 7]) assert.equal(fold.get(id).state, "unknown");
  assert.throws(() => new Fold({}), /slot is undefined/);
});
