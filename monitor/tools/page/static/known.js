/* What a subscriber knows about each place, from the records of the output topic. No dependencies.
 *
 *   import { Fold } from "./known.js";
 *   const fold = new Fold({ slot: 3_600_000, locations: ["market", "park"] });
 *   fold.apply({ type, data });               // a CloudEvent of the topic; returns the ids of the places it is about
 *   const known = fold.get("market");
 *   known.state                               // "safe" | "noisy_count" | "paused" | "unknown", at this moment
 *
 * new Fold({ slot, locations, earlier, now, finalFor }): `slot` is clock.slot of the configuration in ms. `locations` is the
 *   public registry's ids in file order; without them no designated time makes a place safe. `earlier`: registries that
 *   the service may still use, each as its digest and the ids of `locations` that it lacks. `now` returns a Date or ms
 *   (default: Date.now). `finalFor`: how long the last answer about a designated time stays valid, in ms (one day).
 * fold.apply({ type, data }): `data` is the value, as an object or as JSON. Other fields are ignored. It never throws.
 *   Records may come twice, late, or in any order.
 * fold.get(id): the most cautious answer of all monitors (noisy_count, paused, unknown, safe). Never throws.
 * fold.answers(id): one Known for each monitor that answers about the place. Hot spots are compared with no
 *   threshold, so `get` uses them only if there is no other answer.
 * fold.hotSpots, fold.dwell: the latest `data` of these kinds, in a Map by monitor. fold.asOf: the latest as_of, or
 *   null. fold.unreadable: the number of invalid records.
 * Known has state, asOf, validUntil (Dates or null), countAtMost (null: no upper bound), countAtLeast (0: none),
 *   reason, and about: { monitor, kind, start, end, threshold, resumesAt }: the monitor, and the time of the visits
 *   that it counts (start = end: a designated time). Each is computed when read: after validUntil, "unknown".
 *   known.current has all fields of one moment; JSON.stringify(known) writes them.
 * reason: below_threshold (safe), noisy (noisy_count), budget_spent (paused until about.resumesAt), or, if unknown:
 *   nothing_published, too_old (validUntil has passed), input_incomplete, other_registry (the service has other
 *   locations), not_understood (a newer form of record), clock_behind (as_of is more than a slot ahead of this clock).
 *
 * docs/subscribers.md has the rules. The Python client passes the same test vectors, docs/vectors/. */

const PREFIX = "org.location-monitor.";
const DAY = 86_400_000;
const CAUTION = ["safe", "unknown", "paused", "noisy_count"];
const FIELDS = ["state", "asOf", "validUntil", "countAtMost", "countAtLeast", "reason", "about"];
const UNKNOWN = { state: "unknown", countAtMost: null, countAtLeast: 0 };
const NOTHING = Object.freeze({ ...UNKNOWN, asOf: null, validUntil: null, reason: "nothing_published", about: null });

/* The contract of the records, as strict as the service's own models: what they refuse is a newer form. */
const ID_LENGTH = 256;
const isCount = (value) => Number.isInteger(value) && value >= 0;
const isPositive = (value) => isCount(value) && value > 0;
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isEpsilon = (value) => typeof value === "string" && /^[1-9]\d*(\/[1-9]\d*)?$/.test(value);
const isDigest = (value) => typeof value === "string" && /^[0-9a-f]{64}$/.test(value);
const isLocation = (value) => typeof value === "string" && value !== "" && [...value].length <= ID_LENGTH;
const isMark = (mark) => [mark.tick, mark.until].every(Number.isInteger)
  && isCount(mark.noisy_count) && isEpsilon(mark.epsilon);
const isProbability = (value) => typeof value === "number" && value >= 0 && value <= 1;
const check = (condition) => { if (!condition) throw new TypeError("not understood"); };

/** Reads a time as the service writes it, which must exist: a Date takes 30 February as 2 March. */
function instant(text) {
  check(typeof text === "string" && /^(?!0000)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z$/.test(text));
  const date = new Date(text);
  check(date.toISOString().slice(0, 19) === text.slice(0, 19));
  return date;
}

export class Known {
  #answers;
  #fold;

  constructor(answers, fold) {
    this.#answers = answers;
    this.#fold = fold;
    Object.freeze(this);
  }

  get current() {
    const { now, slot } = this.#fold;
    const at = now();
    let first = null;
    for (const answer of this.#answers) {
      const current = expire(answer, at, slot);
      if (!first || byCaution(current, first) < 0) first = current;
    }
    return first ?? NOTHING;
  }

  toJSON() {
    return this.current;
  }
}

for (const name of FIELDS) {
  Object.defineProperty(Known.prototype, name, { get() { return this.current[name]; } });
}

function expire(answer, now, slot) {
  if (answer.state === "unknown") return answer;
  if (now > answer.validUntil) return { ...answer, ...UNKNOWN, reason: "too_old" };
  return now + slot < answer.asOf ? { ...answer, ...UNKNOWN, reason: "clock_behind" } : answer;
}

/** Sorts the more cautious answer first, then the one that expires first. */
const byCaution = (a, b) =>
  CAUTION.indexOf(b.state) - CAUTION.indexOf(a.state) || a.validUntil - b.validUntil || byMonitor(a, b);
const byMonitor = (a, b) => (a.about.monitor < b.about.monitor ? -1 : 1);

export class Fold {
  hotSpots = new Map();
  dwell = new Map();
  asOf = null;
  unreadable = 0;
  #alerts = new Map(); // "monitor/location" → answer; a monitor's name contains no slash
  #times = new Map(); // monitor → Map(time in ms → { shards, snapshots: Map(shard → snapshot), bounds, asOf })
  #named = new Map(); // location → Map(monitor → answer) of the hot spots
  #shards = new Map(); // number of shards → { of: Map(location → shard), ids: the locations of each shard }
  #registries; // digest → the locations for which a snapshot with this digest counts
  #monitors = new Set();

  constructor({ slot, locations = [], earlier = [], now = Date.now, finalFor = DAY }) {
    if (!(slot > 0)) throw new TypeError(`slot is ${slot}: expected the length of a slot in ms, such as 3600000`);
    Object.assign(this, { slot, finalFor, locations, now: () => Number(now()) });
    const words = sha256(locations.map((id) => `${id}\n`).join(""));
    this.digest = [...words].map((word) => word.toString(16).padStart(8, "0")).join("");
    this.#registries = new Map(earlier.map(({ digest, lacks }) => {
      const lacking = new Set(lacks);
      return [digest, new Set(locations.filter((id) => !lacking.has(id)))];
    }));
    this.#registries.set(this.digest, new Set(locations));
  }

  apply(record) {
    const { type, data } = record ?? {};
    const add = {
      __proto__: null,
      [`${PREFIX}over_time`]: this.#addAlert,
      [`${PREFIX}at_times`]: this.#addSnapshot,
      [`${PREFIX}hot_spots`]: this.#addHotSpots,
      [`${PREFIX}dwell`]: this.#addDwell,
    }[String(type)];
    return (add && this.#attempt(() => {
      const value = typeof data === "string" ? JSON.parse(data) : data;
      check(typeof value.monitor === "string" && /^[\w-]+$/.test(value.monitor));
      const asOf = instant(value.as_of);
      const changed = add.call(this, value, asOf);
      if (!(asOf <= this.asOf)) this.#advance(asOf);
      return changed;
    })) || [];
  }

  #attempt(read) {
    try {
      return read();
    } catch {
      this.unreadable += 1;
      return null;
    }
  }

  get(id) {
    const answers = this.#answersAbout(id);
    return new Known(answers.length ? answers : this.#hotSpotsAt(id), this);
  }

  answers(id) {
    const answers = [...this.#answersAbout(id), ...this.#hotSpotsAt(id)].sort(byMonitor);
    return answers.map((answer) => new Known([answer], this));
  }

  #answersAbout(id) {
    const answers = [];
    for (const monitor of this.#monitors) {
      const answer = this.#alerts.get(`${monitor}/${id}`);
      if (answer) answers.push(answer);
    }
    for (const [monitor, times] of this.#times) {
      const answer = this.#latestTime(id, monitor, times);
      if (answer) answers.push(answer);
    }
    return answers;
  }

  #hotSpotsAt(id) {
    return [...(this.#named.get(id)?.values() ?? [])];
  }

  #answer(asOf, final, about, fields) {
    const validUntil = new Date(+asOf + Math.max(2 * this.slot, final ? this.finalFor : 0));
    const { monitor, kind, start = null, end = asOf, threshold = null, resumesAt = null } = about;
    const { state = "unknown", countAtMost = null, countAtLeast = 0, reason, counted = asOf } = fields;
    const full = { monitor, kind, start, end, threshold, resumesAt };
    return Object.freeze({ state, asOf: counted, validUntil, countAtMost, countAtLeast, reason, about: full });
  }

  #addAlert(value, asOf) {
    const { monitor, location_id: id } = value;
    check(isLocation(id));
    const key = `${monitor}/${id}`;
    if (this.#alerts.get(key)?.asOf >= asOf) return [];
    const about = { monitor, kind: "over_time" };
    const understood = this.#attempt(() => this.#readAlert(value, asOf, about));
    this.#alerts.set(key, understood ?? this.#answer(asOf, false, about, { reason: "not_understood" }));
    this.#monitors.add(monitor);
    return [id];
  }

  #readAlert(value, asOf, about) {
    const { kind, tick, status: state, threshold, epsilon, answers, window_start, resumes_at, count_at_most } = value;
    check(kind === "over_time" && Number.isInteger(tick) && isPositive(threshold) && isEpsilon(epsilon));
    check(Array.isArray(answers) && answers.every(isMark));
    const seen = { ...about, start: instant(window_start), threshold };
    const answer = (fields) => this.#answer(asOf, false, seen, { state, ...fields });
    if (state === "safe") return answer({ reason: "below_threshold", countAtMost: threshold - 1 });
    if (state === "unknown") return answer({ reason: "input_incomplete" });
    if (state === "paused") {
      seen.resumesAt = instant(resumes_at);
      return answer({ reason: "budget_spent" });
    }
    check(state === "noisy_count" && isCount(count_at_most));
    check(isCount(value.noisy_count) && isProbability(value.p_value));
    return answer({ reason: "noisy", countAtMost: count_at_most });
  }

  #addSnapshot(value, asOf) {
    const { monitor, shard, shards } = value;
    const time = +instant(value.time);
    check(isCount(shards) && isCount(shard) && shard < shards);
    const times = entry(this.#times, monitor, () => new Map());
    const at = entry(times, time, () => ({ shards, snapshots: new Map(), bounds: new Map(), asOf }));
    if (at.shards !== shards && at.asOf < asOf) Object.assign(at, { shards, snapshots: new Map() });
    if (at.shards !== shards || at.snapshots.get(shard)?.asOf >= asOf) return [];
    const understood = this.#attempt(() => readSnapshot(value, asOf, at.bounds));
    at.snapshots.set(shard, understood ?? { asOf, status: "not_understood", noisy: {} });
    if (at.asOf < asOf) at.asOf = asOf;
    return [...(this.#divided(shards).ids.get(shard) ?? [])];
  }

  /** The answer about the latest designated time with a snapshot of the place's shard. */
  #latestTime(id, monitor, times) {
    let latest = null;
    for (const [time, at] of times) {
      const snapshot = at.snapshots.get(this.#shardOf(id, at.shards));
      if (snapshot && !(latest?.time > time)) latest = { time, at, snapshot };
    }
    return latest && this.#atTime(id, monitor, latest);
  }

  #atTime(id, monitor, { time, at, snapshot }) {
    const { asOf, final, status, registry, threshold = null } = snapshot;
    const about = { monitor, kind: "at_times", start: new Date(time), end: new Date(time), threshold };
    const answer = (fields) => this.#answer(asOf, final, about, fields);
    const countAtLeast = at.bounds.get(id) ?? 0;
    if (Object.hasOwn(snapshot.noisy, id)) {
      const { tick, noisy_count: most } = snapshot.noisy[id];
      // The count is as of its own tick. A lower bound above it includes later reports: then it is no upper bound.
      const countAtMost = most < countAtLeast ? null : most;
      const counted = new Date(Math.max(0, asOf - Math.max(0, snapshot.tick - tick) * this.slot));
      return answer({ state: "noisy_count", reason: "noisy", countAtMost, countAtLeast, counted });
    }
    if (status !== "complete") return answer({ reason: status === "unknown" ? "input_incomplete" : status });
    if (!this.#registries.get(registry)?.has(id)) return answer({ reason: "other_registry" });
    return answer({ state: "safe", reason: "below_threshold", countAtMost: threshold - 1, countAtLeast });
  }

  #addHotSpots(value, asOf) {
    const { monitor, hot_spots: spots } = value;
    const time = instant(value.time);
    checkTimed(value, "hot_spots");
    check(value.final === true && isPositive(value.top) && Array.isArray(spots));
    check(spots.every((spot) => isLocation(spot.location_id) && isCount(spot.noisy_count)));
    const before = this.hotSpots.get(monitor);
    if (before && instant(before.time) >= time) return [];
    this.hotSpots.set(monitor, value);
    const about = { monitor, kind: "hot_spots", start: time, end: time };
    for (const { location_id: id } of before?.hot_spots ?? []) this.#named.get(id).delete(monitor);
    for (const { location_id: id, noisy_count: countAtMost } of spots) {
      const answer = this.#answer(asOf, true, about, { state: "noisy_count", reason: "noisy", countAtMost });
      entry(this.#named, id, () => new Map()).set(monitor, answer);
    }
    return [...new Set([...(before?.hot_spots ?? []), ...spots].map((spot) => spot.location_id))];
  }

  #addDwell(value) {
    check(["complete", "unknown"].includes(value.status));
    const before = this.dwell.get(value.monitor);
    if (!before || instant(before.time) < instant(value.time)) this.dwell.set(value.monitor, value);
    return [];
  }

  /** Forgets places and times without a record for 24 slots or `finalFor`: they ended, or were removed. */
  #advance(asOf) {
    this.asOf = asOf;
    const oldest = asOf - Math.max(24 * this.slot, this.finalFor);
    for (const [key, answer] of this.#alerts) if (answer.asOf < oldest) this.#alerts.delete(key);
    for (const times of this.#times.values()) {
      for (const [time, at] of times) if (at.asOf < oldest) times.delete(time);
    }
  }

  #shardOf(id, shards) {
    return this.#divided(shards).of.get(id) ?? shardOf(id, shards);
  }

  #divided(shards) {
    return entry(this.#shards, shards, () => {
      const divided = { of: new Map(), ids: new Map() };
      for (const id of this.locations) {
        const shard = shardOf(id, shards);
        divided.of.set(id, shard);
        entry(divided.ids, shard, () => []).push(id);
      }
      return divided;
    });
  }
}

/** Checks what all answers about a designated time have in common. */
function checkTimed({ kind, tick, status, registry, locations, epsilon }, expected) {
  check(kind === expected && Number.isInteger(tick) && ["complete", "unknown"].includes(status));
  check(isDigest(registry) && isCount(locations) && isEpsilon(epsilon));
}

function readSnapshot(value, asOf, bounds) {
  const { status, final, registry, threshold, tick, noisy_counts: noisy, counts_at_least: least = {} } = value;
  checkTimed(value, "at_times");
  check(typeof final === "boolean" && isPositive(threshold) && isObject(noisy) && isObject(least));
  check(value.at_least_epsilon == null || isEpsilon(value.at_least_epsilon));
  check([...Object.keys(noisy), ...Object.keys(least)].every(isLocation));
  check(Object.values(noisy).every((one) => Number.isInteger(one.tick) && isCount(one.noisy_count)));
  check(Object.values(least).every(isPositive));
  for (const [id, bound] of Object.entries(least)) bounds.set(id, bound);
  return { asOf, status, final, registry, threshold, tick, noisy };
}

function entry(map, key, create) {
  if (!map.has(key)) map.set(key, create());
  return map.get(key);
}

/** The shard of a location: the first 8 bytes of the SHA-256 of its id, big-endian, modulo `shards`. */
function shardOf(id, shards) {
  const [high, low] = sha256(id);
  if (shards > 2 ** 20) return Number(((BigInt(high) << 32n) | BigInt(low)) % BigInt(shards)); // the product is inexact
  return ((high % shards) * (2 ** 32 % shards) + low) % shards;
}

/* SHA-256 (FIPS 180-4): the browser's own is asynchronous, and absent without HTTPS. */
const PRIMES = [];
for (let n = 2; PRIMES.length < 64; n += 1) if (PRIMES.every((prime) => n % prime)) PRIMES.push(n);
const fraction = (root) => ((root % 1) * 2 ** 32) | 0;
const K = PRIMES.map((prime) => fraction(Math.cbrt(prime)));
const INITIAL = Int32Array.from(PRIMES.slice(0, 8), (prime) => fraction(Math.sqrt(prime)));
const encoder = new TextEncoder();
const rotate = (word, by) => (word >>> by) | (word << (32 - by));
const mix = (word, a, b, c) => rotate(word, a) ^ rotate(word, b) ^ rotate(word, c);

function sha256(text) {
  const bytes = encoder.encode(text);
  const view = new DataView(new ArrayBuffer(((bytes.length + 72) >> 6) << 6));
  new Uint8Array(view.buffer).set(bytes);
  view.setUint8(bytes.length, 0x80);
  view.setBigUint64(view.byteLength - 8, BigInt(bytes.length) << 3n);
  const hash = INITIAL.slice();
  const w = new Int32Array(16);
  for (let block = 0; block < view.byteLength; block += 64) {
    let [a, b, c, d, e, f, g, h] = hash;
    for (let i = 0; i < 64; i += 1) {
      const x = w[(i + 1) & 15];
      const y = w[(i + 14) & 15];
      const more = (rotate(x, 7) ^ rotate(x, 18) ^ (x >>> 3)) + (rotate(y, 17) ^ rotate(y, 19) ^ (y >>> 10));
      w[i & 15] = i < 16 ? view.getInt32(block + 4 * i) : w[i & 15] + w[(i + 9) & 15] + more;
      const one = h + mix(e, 6, 11, 25) + ((e & f) ^ (~e & g)) + K[i] + w[i & 15];
      const two = mix(a, 2, 13, 22) + ((a & b) ^ (a & c) ^ (b & c));
      h = g; g = f; f = e; e = (d + one) | 0; d = c; c = b; b = a; a = (one + two) | 0;
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => { hash[i] += word; });
  }
  return new Uint32Array(hash.buffer);
}
