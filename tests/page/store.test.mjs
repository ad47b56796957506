// The store and the time line of the browser, with stepped clocks and a server that the tests control: node --test tests/page/store.test.mjs
import assert from "node:assert/strict";
import test, { beforeEach, mock } from "node:test";
import { Store, levelOf } from "../../monitor/page/static/store.js";
import { Timeline } from "../../monitor/page/static/timeline.js";

const HOUR = 3_600_000;
const NOON = Date.parse("2026-01-06T12:00:00Z");
const DIGEST = "d".repeat(64);
const REGISTRY = { digest: DIGEST, ids: ["market", "park"], names: ["Market", ""], latitudes: [0, 0], longitudes: [0, 0] };

const text = (time) => new Date(time).toISOString().replace(".000Z", "Z");

class FakeEventSource extends EventTarget {
  static OPEN = 1;
  static CLOSED = 2;
  static opened = [];
  readyState = 1;

  constructor() {
    super();
    FakeEventSource.opened.push(this);
  }

  close() {
    this.readyState = 2;
  }

  send(name, data) {
    this.dispatchEvent(Object.assign(new Event(name), { data: JSON.stringify(data) }));
  }

  beat(now, more = {}) {
    this.send("beat", { ...status(now), ...more });
  }

  refuse() {
    this.readyState = 2;
    this.dispatchEvent(new Event("error"));
  }
}

const status = (now) => ({ now: text(now), as_of: text(NOON), silent_seconds: 0, registry: DIGEST, slot_seconds: 3600 });

/** An answer of a monitor about the rows of a run, which is the market unless others are named. */
const answer = (asOf, state, more = {}) => ({
  monitor: "places", kind: "over_time", threshold: 10, state, reason: "below_threshold", count_at_least: 0,
  as_of: text(asOf), valid_until: text(asOf + 2 * HOUR), rows: [0, 0], ...more,
});

/** The states of all places, as a server at a position sends them. */
const states = (position, ...answers) => ({ ...status(server.now), position: `T/0:${position}`, answers });

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

/** Answers a request; `server.takes` ms pass meanwhile. */
async function respond(path) {
  server.asked.push(path);
  await null;
  if (server.fails) return { ok: false, status: 503 };
  if (path === "v1/registry") return { ok: true, json: async () => REGISTRY };
  if (path === "v1/ticks") return { ok: true, json: async () => ({ ticks: server.ticks }) };
  if (server.holds(path)) return new Promise((resolve) => { server.release = () => resolve({ ok: false, status: 503 }); });
  const sent = states(1, ...server.answers);
  advance(server.takes);
  return { ok: true, json: async () => sent };
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

const source = () => FakeEventSource.opened.at(-1);
const state = () => store.known[0].state;
const reason = () => store.known[0].reason;
const asked = () => server.asked.filter((path) => path === "v1/states").length;

beforeEach(async () => {
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout", "Date"], now: NOON });
  FakeEventSource.opened.length = 0;
  server = { now: NOON, asked: [], answers: [answer(NOON, "safe")], fails: false, takes: 0 };
  Object.assign(server, { ticks: [], holds: () => false, release: () => {} });
  Object.assign(globalThis, { fetch: respond, EventSource: FakeEventSource });
  store = new Store({ unreachableMs: 60_000 }, () => 1);
  await store.start();
  source().beat(NOON);
  source().send("states", states(1, ...server.answers));
});

test("a late beat does not turn the clock back: the state is read again", async () => {
  mock.timers.setTime(NOON + 5 * HOUR); // the device slept: timers stood still
  server.now += 5 * HOUR;
  source().beat(NOON + 10_000);
  assert.equal(state(), "unknown");
  const late = source();
  advance(3000);
  await settle();
  assert.notEqual(source(), late);
  assert.equal(store.clock.now(), server.now);
  assert.equal(reason(), "too_old");
});

test("the time of a response counts from its request", async () => {
  source().refuse();
  server.takes = 20_000;
  advance(3000);
  await settle();
  assert.equal(store.clock.now(), server.now);
  source().beat(server.now - 100); // not late: the clock may be ahead by the time of the request
  assert.equal(store.clock.now(), server.now - 100);
});

test("a device that wakes sees at once that answers are too old", () => {
  mock.timers.setTime(NOON + 3 * HOUR);
  assert.equal(state(), "safe");
  store.wake();
  assert.equal(state(), "unknown");
});

test("an open stream without beats is replaced", async () => {
  advance(61_000);
  assert.equal(state(), "unknown");
  advance(3000);
  await settle();
  assert.equal(FakeEventSource.opened.length, 2);
  assert.equal(state(), "safe");
});

test("an alarm stays if the states come from a server that is behind", () => {
  source().send("states", states(7, answer(NOON, "noisy_count")));
  source().send("states", states(6, answer(NOON, "safe")));
  assert.equal(state(), "noisy_count");
  source().send("states", { ...states(0, answer(NOON, "safe")), position: "OTHER/0:0" }); // a topic created again
  assert.equal(state(), "safe");
});

test("states about another registry are not shown: the page is read again", () => {
  let outdated = 0;
  store.addEventListener("outdated", () => { outdated += 1; });
  source().beat(NOON, { registry: "0".repeat(64) });
  source().send("states", { ...states(9, answer(NOON, "noisy_count")), registry: "0".repeat(64) });
  assert.deepEqual([outdated, state()], [1, "safe"]);
});

test("each answer expires at its time, and the most cautious one counts", () => {
  const spot = answer(NOON, "noisy_count", { monitor: "busiest", kind: "hot_spots", rows: [0, 1] });
  const alarm = answer(NOON - HOUR, "noisy_count", { monitor: "noon" });
  source().send("states", states(2, alarm, answer(NOON, "safe"), spot));
  const shown = () => [store.known[0].state, store.known[0].reason, store.known[0].monitor];
  assert.deepEqual(shown(), ["noisy_count", "below_threshold", "noon"]);
  assert.deepEqual(store.answers(0).map((one) => one.monitor), ["noon", "busiest", "places"]);
  assert.equal(store.known[1].monitor, "busiest"); // it has no other answer
  source().beat(NOON + HOUR);
  assert.equal(state(), "noisy_count"); // at valid_until, an answer is still valid
  source().beat(NOON + HOUR + 1);
  assert.deepEqual(shown(), ["unknown", "too_old", "noon"]);
});

test("an alarm stays after its answer has expired, until its own end", () => {
  const alarm = { ...answer(NOON - HOUR, "noisy_count", { end: text(NOON - HOUR) }), valid_until: text(NOON + 5 * HOUR) };
  source().send("states", states(2, answer(NOON, "paused", { last_alarm: alarm }), answer(NOON, "safe", { monitor: "noon" })));
  const shown = () => [state(), levelOf(store.known[0]), store.statements(0).length, store.counts().noisy_count];
  assert.deepEqual(shown(), ["paused", "noisy_count", 3, 1]);
  source().beat(NOON + 5 * HOUR); // the server has sent no answer since, and Kafka may be lost
  assert.deepEqual(shown(), ["unknown", "noisy_count", 3, 1]);
  source().beat(NOON + 5 * HOUR + 1);
  assert.deepEqual(shown(), ["unknown", "unknown", 2, 0]);
});

test("a wrong clock of the device extends no answer", () => {
  mock.timers.setTime(NOON - 48 * HOUR); // set back by two days
  source().beat(NOON + 2 * HOUR + 1000);
  assert.deepEqual([state(), reason()], ["unknown", "too_old"]);
});

test("the pauses become longer until a beat comes", async () => {
  const pauses = [];
  for (let attempt = 0; attempt < 6; attempt += 1) {
    const before = asked();
    source().refuse();
    let pause = 0;
    while (asked() === before) {
      pause += 500;
      advance(500);
      await settle();
    }
    pauses.push(pause);
  }
  assert.deepEqual(pauses, [3000, 6000, 12_000, 24_000, 30_000, 30_000]);
  source().beat(server.now);
  source().refuse();
  const before = asked();
  advance(3000);
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
  assert.equal(failed, 1);
  server.fails = true; // the stream is refused, and so are the states
  source().refuse();
  advance(6000);
  await settle();
  assert.equal(failed, 2);
  server.fails = false;
  advance(12_000);
  await settle();
  assert.equal(other.known[0].state, "safe");
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
  server.holds = (path) => path.endsWith(encodeURIComponent(first));
  await slide(timeline, 0);
  await slide(timeline, 1);
  server.release();
  await settle();
  assert.deepEqual([store.at, timeline.slider.value], [second, 1]);
});

test("if the past cannot be read, the slider shows the present too", async () => {
  const timeline = await openTimeline();
  server.fails = true;
  await slide(timeline, 0);
  assert.deepEqual([store.at, timeline.slider.value], [null, 2]);
});

test("the past needs no timer, and is no change", async () => {
  advance(HOUR);
  source().beat(server.now);
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
