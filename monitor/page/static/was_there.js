/* "Was I there?": visits that somebody enters, or the timeline export of a device, compared with the alarms that still
 * count. All of it happens in the browser: nothing is sent, and nothing is kept. */

import { distance } from "./device.js";
import { element } from "./dom.js";

const NEAR_M = 100; // how far from a place a visit of a timeline may be

/** Whether an alarm is about a time of a visit. All times are local, such as "2026-01-07T18:00", so text compares them. */
export const covers = (alarm, { from, until }, local) =>
  local(alarm.start ?? alarm.end) <= until && from <= local(alarm.end);

/** The position of a visit of a timeline, in any of the forms that exports have had; null for another form. */
function readPosition(visit) {
  const { latitudeE7: north, longitudeE7: east } = visit.location ?? {};
  if (Number.isFinite(north) && Number.isFinite(east)) return { latitude: north / 1e7, longitude: east / 1e7 };
  const given = visit.topCandidate?.placeLocation?.latLng ?? visit.topCandidate?.placeLocation;
  const numbers = typeof given === "string" ? given.match(/-?\d+(\.\d+)?/g) : null;
  return numbers?.length === 2 ? { latitude: Number(numbers[0]), longitude: Number(numbers[1]) } : null;
}

/** Returns the visits of a timeline export, as { position, from, until } with local times. Others are left out. */
export function readTimeline(exported, local) {
  const old = (exported.timelineObjects ?? []).flatMap(({ placeVisit: visit }) => (visit
    ? [{ visit, from: visit.duration?.startTimestamp, until: visit.duration?.endTimestamp }] : []));
  const segments = Array.isArray(exported) ? exported : exported.semanticSegments ?? [];
  const recent = segments.flatMap(({ visit, startTime: from, endTime: until }) => (visit ? [{ visit, from, until }] : []));
  return [...old, ...recent].flatMap(({ visit, from, until }) => {
    const position = readPosition(visit);
    const known = position && Number.isFinite(Date.parse(from)) && Number.isFinite(Date.parse(until));
    return known ? [{ position, from: local(from), until: local(until) }] : [];
  });
}

export class WasThere {
  constructor({ store, words }) {
    Object.assign(this, { store, words });
    const { texts } = words;
    const names = store.names.map((name) => element("option", { value: name }));
    const field = (label, attributes) => {
      const input = element("input", attributes);
      return [input, element("label", {}, `${label} `, input)];
    };
    const [place, placeLabel] = field(texts.was_place, { list: "was-places", required: true, autocomplete: "off" });
    const [day, dayLabel] = field(texts.was_day, { type: "date", required: true });
    const [from, fromLabel] = field(texts.was_from, { type: "time", required: true });
    const [until, untilLabel] = field(texts.was_until, { type: "time", required: true });
    const [file, fileLabel] = field(texts.was_file, { type: "file", accept: ".json,application/json" });
    const form = element("form", {}, placeLabel, dayLabel, fromLabel, untilLabel, element("button", {}, texts.was_compare));
    this.results = element("ul", { "aria-live": "polite" });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const visit = { from: `${day.value}T${from.value}`, until: `${day.value}T${until.value}` };
      this.#show([this.#compare(place.value, visit)]);
    });
    file.addEventListener("change", () => this.#readFile(file.files[0]));
    this.root = element("details", { class: "was" }, element("summary", {}, texts.was_there),
      element("p", {}, words.fill("was_intro", { zone: words.zone })), element("datalist", { id: "was-places" }, ...names),
      form, fileLabel, this.results);
  }

  #local = (text) => this.words.local(text);

  async #readFile(file) {
    const visits = await file.text().then((text) => readTimeline(JSON.parse(text), this.#local)).catch(() => []);
    const found = visits.flatMap((visit) => {
      const row = this.#findNear(visit.position);
      return row < 0 ? [] : [this.#judge(row, visit)];
    });
    this.#show(found.length ? found : [{ text: this.words.texts.was_nothing }]);
  }

  /** The row of the nearest place, at most `NEAR_M` away; -1 without one. */
  #findNear(position) {
    const { latitudes, longitudes } = this.store;
    let [best, least] = [-1, NEAR_M];
    latitudes.forEach((latitude, row) => {
      if (latitude === null || longitudes[row] === null) return;
      const meters = distance(position, { latitude, longitude: longitudes[row] });
      if (meters <= least) [best, least] = [row, meters];
    });
    return best;
  }

  #compare(name, visit) {
    const wanted = name.trim().toLowerCase();
    const row = this.store.names.findIndex((one) => one.toLowerCase() === wanted);
    return row < 0 ? { text: this.words.fill("was_no_place", { name }) } : this.#judge(row, visit);
  }

  /** Says whether an alarm that still counts covers a visit. */
  #judge(row, visit) {
    const { store, words } = this;
    const alarms = store.statements(row).filter(({ state }) => state === "noisy_count");
    const alarm = alarms.find((one) => covers(one, visit, this.#local));
    const about = { name: store.names[row], day: visit.from.replace("T", " "), until: visit.until.slice(11) };
    if (!alarm) return { text: words.fill("was_no_alarm", about) };
    return { alarm, text: words.fill("was_alarm", { ...about, what: words.lines(alarm, [alarm])[0] }) };
  }

  /** Shows the results, those with an alarm first. */
  #show(results) {
    const sorted = [...results.filter(({ alarm }) => alarm), ...results.filter(({ alarm }) => !alarm)];
    this.results.replaceChildren(...sorted.map(({ alarm, text }) => element("li", { class: alarm ? "noisy_count" : "" }, text)));
  }
}
