// The store and the time line of the browser, with stepped clocks and a server that the tests control: node --test tests/page/store.test.mjs
import assert from "node:assert/strict";
import test, { beforeEach, mock } from "node:test";
import { trace } from "../../monitor/page/static/curve.js";
import { Store, levelOf, nameOf } from "../../monitor/page/static/store.js";
import { Timeline } from "../../monitor/page/static/timeline.js";
import { covers, readTimeline } from "../../monitor/page/static/was_there.js";
import { Words } from "../../monitor/page/static/words.js";

const HOUR = 3_600_000;
const NOON = Date.parse("2026-01-06T12:00:00Z");
const DIGEST = "d".repeat(64);
const REGISTRY = { digest: DIGEST, ids: ["market", "park"], names: ["Market", ""], latitudes: [0, 0], longitudes: [0, 0] };

const text = (time) => new Date(time).toISOString().replace(".000Z", "Z");

const status = (now) => ({ now: text(now), as_of: text(NOON), silent_seconds: 0, registry: DIGEST, slot_seconds: 3600 });

/** An answer of a monitor about the rows of a run, which is the market unless others are named. */
const answer = (asOf, state, more = {}) => ({
  monitor: "places", kind: "over_time", threshold: 10, state, reason: "below_threshold", count_at_least: 0,
  as_of: text(asOf), valid_until: text(asOf + 2 * HOUR), rows: [0, 0], ...more,
});

/** The states of all places, as the page writes them now. */
const states = (...answers) => ({ ...status(server.now), written_at: text(server.now), answers });

/** An element of HTML with attributes only, on which nothing is drawn. */
class FakeElement extends EventTarget {
  setAttribute(name, value) {
    this[name] = value;
  }

  append() {}

  getContext() {
    return { clearRect() {}, fillRect() {} };
  }
}

let server;
let store;
let steady = 0; // the device's clock that stands still in sleep
mock.method(performance, "now", () => steady);

/** Answers a request; `server.takes` ms pass meanwhile. The page writes its states while `server.writes`. */
async function respond(path, { headers = {} } = {}) {
  server.asked.push(path);
  await null;
  if (server.fails) return { ok: false, status: 503 };
  if (path === "registry.json") return { ok: true, json: async () => REGISTRY };
  if (path === "ticks.json") return { ok: true, json: async () => ({ ticks: server.ticks }) };
  if (server.holds(path)) return new Promise((resolve) => { server.release = () => resolve({ ok: false, status: 503 }); });
  if (path !== "states.json") return { ok: true, json: async () => ({ registry: DIGEST, answers: server.answers }) };
  if (server.writes) server.file = { ...states(...server.answers), ...server.more };
  const sent = { etag: server.file.written_at, date: new Date(server.date ?? server.now).toUTCString() };
  advance(server.takes);
  if (headers["If-None-Match"] === sent.etag) return { ok: false, status: 304 };
  const given = new Map([["ETag", sent.etag], ["Date", server.date === null ? null : sent.date], ["Age", server.age]]);
  const { file } = server;
  return { ok: true, status: 200, headers: given, json: async () => file };
}

/** Lets time pass on the device and on the server. */
function advance(ms) {
  server.now += ms;
  steady += ms;
  mock.timers.tick(ms);
}

/** Lets all pending promises continue. */
async function settle() {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => { setImmediate(resolve); });
}

const state = () => store.known[0].state;
const reason = () => store.known[0].reason;
const asked = () => server.asked.filter((path) => path === "states.json").length;

/** Lets time pass in steps in which the store reads its files. */
async function pass(ms) {
  for (let step = 0; step < ms; step += 5000) {
    advance(Math.min(5000, ms - step));
    await settle();
  }
}

/** Writes states at once, and lets the store read them. */
async function publish(...answers) {
  server.answers = answers;
  await pass(10_000);
}

beforeEach(async () => {
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout", "Date"], now: NOON });
  server = { now: NOON, asked: [], answers: [answer(NOON, "safe")], fails: false, takes: 0, writes: true, age: null };
  Object.assign(server, { ticks: [], holds: () => false, release: () => {}, more: {} });
  Object.assign(globalThis, { fetch: respond });
  store = new Store({ unreachableMs: 60_000 }, () => 1);
  await store.start();
});

test("states that are no longer written turn unknown, and come back", async () => {
  await pass(10_000);
  server.writes = false;
  await pass(55_000);
  assert.equal(state(), "safe");
  await pass(6000);
  assert.deepEqual([state(), reason()], ["unknown", "unreachable"]);
  server.writes = true;
  await pass(10_000);
  assert.equal(state(), "safe");
});

test("a first visit of files that are no longer written sees nothing but unknown", async () => {
  await pass(10_000);
  server.writes = false;
  server.now += 3 * HOUR; // only the web server knows: the device was off
  const other = new Store({ unreachableMs: 60_000 }, () => 1);
  await other.start();
  assert.deepEqual([other.known[0].state, other.known[0].reason], ["unknown", "unreachable"]);
  assert.equal(other.clock.now(), server.now);
});

test("the age in a cache counts", async () => {
  server.age = "61";
  await pass(10_000);
  assert.equal(reason(), "unreachable");
});

test("a server without a clock is judged by the clock of the device", async () => {
  server.date = null;
  await pass(10_000);
  assert.equal(state(), "safe");
});

test("the age of files says how old they are, also in a simulation of another time", async () => {
  server.more = { now: text(NOON - 24 * HOUR) };
  server.answers = [answer(NOON - 24 * HOUR, "safe")];
  await pass(10_000);
  assert.equal(state(), "safe");
  assert.ok(Math.abs(store.clock.now() - (NOON - 24 * HOUR)) < 20_000);
});

test("a page that does not hear its source turns unknown", async () => {
  server.more = { silent_seconds: 61 };
  await pass(10_000);
  assert.equal(reason(), "unreachable");
  server.more = { silent_seconds: null };
  await pass(10_000);
  assert.equal(reason(), "unreachable");
});

test("the time of a response counts from its request", async () => {
  server.takes = 20_000;
  advance(10_000);
  await settle();
  assert.ok(store.clock.now() >= server.now);
});

test("a device that wakes sees at once that answers are too old, and reads them again", async () => {
  mock.timers.setTime(NOON + 3 * HOUR);
  server.now += 3 * HOUR;
  assert.equal(state(), "safe");
  store.wake();
  assert.equal(state(), "unknown");
  server.answers = [answer(server.now, "safe")];
  await settle();
  assert.equal(state(), "safe");
});

test("an alarm stays if the states come from a cache that is behind", async () => {
  await pass(10_000);
  const earlier = server.file;
  await publish(answer(NOON, "noisy_count"));
  server.writes = false;
  server.file = earlier;
  await pass(10_000);
  assert.equal(state(), "noisy_count");
});

test("states about another registry are not shown: the page is read again", async () => {
  let outdated = 0;
  store.addEventListener("outdated", () => { outdated += 1; });
  server.more = { registry: "0".repeat(64) };
  await publish(answer(NOON, "noisy_count"));
  assert.deepEqual([outdated > 0, state()], [true, "safe"]);
});

test("each answer expires at its time, and the most cautious one counts", async () => {
  const spot = answer(NOON, "noisy_count", { monitor: "busiest", kind: "hot_spots", rows: [0, 1] });
  const alarm = answer(NOON - HOUR, "noisy_count", { monitor: "noon" });
  await publish(alarm, answer(NOON, "safe"), spot);
  const shown = () => [store.known[0].state, store.known[0].reason, store.known[0].monitor];
  assert.deepEqual(shown(), ["noisy_count", "below_threshold", "noon"]);
  assert.deepEqual(store.answers(0).map((one) => one.monitor), ["noon", "busiest", "places"]);
  assert.equal(store.known[1].monitor, "busiest"); // it has no other answer
  await pass(NOON + HOUR - server.now);
  assert.equal(state(), "noisy_count"); // at valid_until, an answer is still valid
  await pass(25);
  assert.deepEqual(shown(), ["unknown", "too_old", "noon"]);
});

test("an alarm stays after its answer has expired, until its own end", async () => {
  const alarm = { ...answer(NOON - HOUR, "noisy_count", { end: text(NOON - HOUR) }), valid_until: text(NOON + 5 * HOUR) };
  await publish(answer(NOON, "paused", { last_alarm: alarm }), answer(NOON, "safe", { monitor: "noon" }));
  const shown = () => [state(), levelOf(store.known[0]), store.statements(0).length, store.counts().noisy_count];
  assert.deepEqual(shown(), ["paused", "noisy_count", 3, 1]);
  await pass(NOON + 5 * HOUR - server.now);
  assert.deepEqual(shown(), ["unknown", "noisy_count", 3, 1]);
  await pass(25);
  assert.deepEqual(shown(), ["unknown", "unknown", 2, 0]);
});

test("a wrong clock of the device extends no answer", async () => {
  mock.timers.setTime(NOON - 48 * HOUR); // set back by two days
  server.now += 2 * HOUR + 1000;
  store.wake();
  await settle();
  assert.deepEqual([state(), reason()], ["unknown", "too_old"]);
});

test("the pauses become longer until the states are read", async () => {
  await pass(10_000);
  const pauses = [];
  server.fails = true;
  await pass(10_000); // the first failure
  for (let attempt = 0; attempt < 6; attempt += 1) {
    const before = asked();
    let pause = 0;
    while (asked() === before) {
      pause += 500;
      advance(500);
      await settle();
    }
    pauses.push(pause);
  }
  assert.deepEqual(pauses, [3000, 6000, 12_000, 24_000, 30_000, 30_000]);
  server.fails = false;
  await pass(30_000);
  const before = asked();
  await pass(10_000);
  assert.equal(asked(), before + 1);
});

test("a start that fails is repeated", async () => {
  server.fails = true;
  const other = new Store({ unreachableMs: 60_000 }, () => 1);
  let failed = 0;
  other.addEventListener("failed", () => { failed += 1; });
  const started = other.start();
  await settle();
  server.fails = false;
  advance(3000);
  await started;
  assert.deepEqual([failed, other.known[0].state], [1, "safe"]);
});

test("files of places have the names that the page gives them", () => {
  const ids = { "market-7": "market-7", "..": "_2e_2e", "a%2fb": "a_252fb", A: "_41", "学": "_e5_ad_a6" };
  for (const [id, name] of Object.entries(ids)) assert.equal(nameOf(id), `places/${name}`);
  assert.equal(nameOf("x".repeat(256)), `places/${"x".repeat(120)}/${"x".repeat(120)}/${"x".repeat(16)}`);
});

/** Returns a time line with three ticks, up to noon. */
async function openTimeline() {
  const document = { createElement: () => new FakeElement(), documentElement: {} };
  Object.assign(globalThis, { document, getComputedStyle: () => ({ getPropertyValue: () => "" }) });
  server.ticks = [2, 1, 0].map((hours) => ({ as_of: text(NOON - hours * HOUR), alarms: 0 }));
  const timeline = new Timeline({ store, words: { texts: {}, time: String } });
  await timeline.update();
  return timeline;
}

/** Moves the slider to a tick, as a visitor does. */
async function slide(timeline, index) {
  timeline.slider.value = index;
  timeline.slider.dispatchEvent(new Event("input"));
  advance(200);
  await settle();
}

test("an old request that fails late does not change what is shown", async () => {
  const timeline = await openTimeline();
  const [first, second] = server.ticks.map((tick) => tick.as_of);
  server.holds = (path) => path === `past/${first.replaceAll(":", "-")}.json`;
  await slide(timeline, 0);
  await slide(timeline, 1);
  server.release();
  await settle();
  assert.deepEqual([store.at, timeline.slider.value], [second, 1]);
});

test("an upper bound counts only without an answer that is compared with a threshold", async () => {
  const bound = answer(NOON, "bounded", { monitor: "curve", kind: "upper_bound", threshold: undefined, count_at_most: 7 });
  await publish(answer(NOON, "safe"), bound);
  assert.deepEqual([state(), store.statements(0).map((one) => one.state)], ["safe", ["safe", "bounded"]]);
  await publish(answer(NOON, "safe"), { ...bound, state: "unknown", reason: "input_incomplete" });
  assert.equal(state(), "safe");
  await publish(bound);
  assert.deepEqual([state(), store.known[0].mark, store.counts().bounded], ["bounded", "bounded", 1]);
  await pass(3 * HOUR);
  assert.deepEqual([state(), reason()], ["unknown", "too_old"]);
});

test("a curve has a step at each publication, and the scale of the highest bound", () => {
  const period = (hour, count) => ({ since: text(NOON + hour * HOUR), count_at_most: count });
  const points = trace([period(0, 5), period(3, 10), period(4, 0)], 10);
  assert.deepEqual(points, [[0, 60], [300, 60], [300, 0], [400, 0], [400, 120], [600, 120]]);
  assert.ok(trace([period(0, 0)], 0).flat().every(Number.isFinite));
});

test("the strongest alarm marks a place, and the latest one is its moment", async () => {
  const alarm = (hours, strength, more = {}) => answer(NOON - hours * HOUR, "noisy_count", {
    end: text(NOON - hours * HOUR), reason: "noisy", strength, valid_until: text(NOON + 9 * HOUR), ...more,
  });
  const shown = () => [store.known[0].mark, store.known[0].alarmedAt];
  assert.deepEqual(shown(), ["safe", 0]);
  const far = alarm(5, "far_above");
  await publish(alarm(1, "just_above"), answer(NOON, "safe", { monitor: "noon", last_alarm: far }));
  assert.deepEqual(shown(), ["far_above", NOON - HOUR]);
  await publish(answer(NOON, "unknown", { reason: "input_incomplete", last_alarm: far }));
  assert.deepEqual(shown(), ["far_above", NOON - 5 * HOUR]);
  await publish(alarm(1, "just_above", { count_at_least: 10 })); // certain, whatever the noise
  assert.deepEqual(shown(), ["noisy_count", NOON - HOUR]);
  await publish(alarm(1, "just_above"));
  server.writes = false;
  await pass(70_000);
  assert.deepEqual([shown()[0], store.known[0].strength], ["unknown", undefined]);
});

test("if the past cannot be read, the slider shows the present too", async () => {
  const timeline = await openTimeline();
  server.fails = true;
  await slide(timeline, 0);
  assert.deepEqual([store.at, timeline.slider.value], [null, 2]);
});

test("the past needs no timer, and is no change", async () => {
  await pass(HOUR);
  const changes = [];
  store.addEventListener("change", ({ detail }) => changes.push(...detail.changed));
  const timers = mock.method(globalThis, "setTimeout");
  server.answers = [answer(NOON - 5 * HOUR, "noisy_count")];
  await store.show(text(NOON - 5 * HOUR));
  assert.equal(state(), "noisy_count");
  assert.ok(timers.mock.calls.every((call) => call.arguments[1] >= 1000));
  timers.mock.restore();
  await store.show(null);
  assert.deepEqual(changes, []);
});

test("a visit is covered by an alarm about its time, in local time", () => {
  const words = new Words({ months: "" }, "en", "Asia/Tokyo");
  const local = (text) => words.local(text);
  const [moment, week] = [{ start: "2026-01-07T03:30:00Z", end: "2026-01-07T03:30:00Z" }, { start: "2026-01-01T00:00:00Z", end: "2026-01-08T00:00:00Z" }];
  const visit = (from, until) => ({ from: `2026-01-07T${from}`, until: `2026-01-07T${until}` });
  assert.equal(covers(moment, visit("12:30", "13:00"), local), true); // 3:30 in UTC
  assert.equal(covers(moment, visit("12:31", "13:00"), local), false);
  assert.equal(covers(moment, visit("11:00", "12:29"), local), false);
  assert.equal(covers(week, visit("00:00", "23:00"), local), true);
  assert.equal(covers({ end: "2026-01-07T03:30:00Z" }, visit("12:00", "13:00"), local), true); // a record that was not read
  assert.equal(covers(week, { from: "2026-01-08T09:01", until: "2026-01-08T10:00" }, local), false);
});

test("a timeline export of each form gives the same visits, and what has no position or time is left out", () => {
  const local = (text) => text;
  const wanted = [{ position: { latitude: 40.5, longitude: -29.25 }, from: "2026-01-07T03:00:00Z", until: "2026-01-07T04:00:00Z" }];
  const [startTime, endTime] = [wanted[0].from, wanted[0].until];
  const duration = { startTimestamp: startTime, endTimestamp: endTime };
  const at = (place) => ({ startTime, endTime, visit: { topCandidate: { placeLocation: place } } });
  const broken = [{ startTime, endTime, visit: {} }, { ...at("geo:1,2"), endTime: "later" }, { activity: {} }];
  assert.deepEqual(readTimeline({ timelineObjects: [{ placeVisit: { location: { latitudeE7: 405_000_000, longitudeE7: -292_500_000 }, duration } }, { activitySegment: {} }] }, local), wanted);
  assert.deepEqual(readTimeline({ semanticSegments: [at({ latLng: "40.5°, -29.25°" }), ...broken] }, local), wanted);
  assert.deepEqual(readTimeline([at("geo:40.5,-29.25"), ...broken], local), wanted);
});
