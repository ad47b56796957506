/* Describes answers, as the page writes them, in words. monitor/page/languages.py does the same for the files. */

const UNITS = [["days", 1440], ["hours", 60], ["minutes", 1]]; // a day is "24 hours": no text has a singular

const DAY_MS = 86_400_000;

/** Whether an answer counts what was reported since this alarm, so that "since then" means its moment. */
const continues = (known, alarm) => known.state === "below_since" && known.counted_since !== undefined && known.counted_since === alarm.end;

export class Words {
  now = null; // the latest as_of, as text: some advice holds only for a day

  /** `zone`: the time zone of all times. */
  constructor(texts, language, zone) {
    Object.assign(this, { texts, language, zone });
    this.months = texts.months.trim().split(/\s+/);
    const form = { year: "numeric", month: "numeric", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: zone };
    this.moment = new Intl.DateTimeFormat("en", form);
    this.number = new Intl.NumberFormat(language, { maximumFractionDigits: 1 });
  }

  fill(key, values = {}) {
    return this.texts[key].replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
  }

  #parts(text) {
    return Object.fromEntries(this.moment.formatToParts(new Date(text)).map(({ type, value }) => [type, value]));
  }

  /** A time in the form of the text "date". */
  time(text) {
    if (!text) return "–";
    const { day, month, year, hour, minute } = this.#parts(text);
    return this.fill("date", { day, month: this.months[month - 1], year, time: `${hour}:${minute}` });
  }

  /** A time as "2026-01-07T18:00", which text sorts. */
  local(text) {
    const { day, month, year, hour, minute } = this.#parts(text);
    return `${year}-${month.padStart(2, "0")}-${day.padStart(2, "0")}T${hour}:${minute}`;
  }

  #day(text) {
    return this.local(text).slice(0, 10);
  }

  /** The lines below the name of a place: the alarms that still count, and the answer that counts now. */
  lines(known, alarms) {
    const { state } = known;
    const row = (key, answer) => this.#fill(key, answer, { end: this.time(answer.end), what: this.short(answer) });
    const lines = alarms.map((alarm) => row("alarm", alarm));
    if (state === "unknown" || state === "paused") lines.push(this.short(known));
    else if (!alarms.length) lines.push(row("row", known));
    else if (state !== "noisy_count") lines.push(row(continues(known, alarms.at(-1)) ? "since_then" : "latest", known));
    return lines;
  }

  /** What the list calls a mark: a word, or of a place with a number only this number. */
  label(mark, known) {
    return mark === "bounded" ? this.fill("at_most", { most: known.count_at_most }) : this.texts[mark];
  }

  /** A few words: the answer, or why there is none. */
  short(known) {
    if (known.state === "unknown") return this.texts[known.reason];
    return this.#fill(this.#choose(known, "short"), known);
  }

  /** Pairs of title and text: what an answer means, what it does not mean, and what to do. */
  sections(known) {
    const hotSpot = known.state === "noisy_count" && known.kind === "hot_spots";
    const kind = hotSpot ? "hot_spot" : known.state;
    return [
      [this.texts.means, this.#fill(hotSpot ? "hot_spot_means" : this.#choose(known, "means"), known)],
      [this.texts.not, this.#fill(`${kind}_not`, known)],
      [this.texts.do, this.#fill(kind === "below_since" ? "noisy_count_do" : `${kind}_do`, known)], // the alarm counts
    ];
  }

  /** What an answer is about: a time or period, or that a place is a hot spot. */
  question(known) {
    return known.kind === "hot_spots" ? this.texts.hot_spots_monitor : this.#when(known);
  }

  #when(known) {
    const end = this.time(known.end);
    if (known.start === known.end) return this.fill("at_time", { end });
    return this.#window("in_window", known) || this.fill("in_period", { end });
  }

  /** A text with the length of a window: whole days, hours or minutes. Empty if there is no known window. */
  #window(key, { start, end }) {
    if (!start || start === end) return "";
    const minutes = Math.round((Date.parse(end) - Date.parse(start)) / 60_000);
    const [unit, size] = UNITS.find(([, size]) => (minutes % size === 0 && minutes > size) || size === 1);
    return this.fill(key, { length: this.fill(unit, { count: minutes / size }), end: this.time(end) });
  }

  #choose(known, kind) {
    if (known.state === "noisy_count" && known.since_at_most !== undefined) return `fresh_count_${kind}`;
    if (known.state !== "noisy_count" || !known.count_at_least) return `${known.state}_${kind}`;
    return known.count_at_most === undefined ? `at_least_${kind}` : `between_${kind}`;
  }

  /** The certain upper bound of the whole window of a count since an alarm. Empty if there is none. */
  #all(key, known, before) {
    if (known.since_at_most === undefined || known.count_at_most === undefined) return "";
    return this.fill(key, { most: known.count_at_most, before, when: known.end ? this.#when(known) : "" });
  }

  /** Whether noise alone could have raised an alarm. Empty if this is not known. */
  #strength({ strength, p_value: chance, threshold }) {
    return strength ? this.fill(`${strength}_means`, { threshold, percent: Math.ceil(100 * chance) }) : "";
  }

  /** When an alarm was published, if this is not its moment, and whether that is today. */
  #published({ as_of: asOf, end }) {
    if (!asOf || !end) return "";
    const published = Date.parse(asOf) === Date.parse(end) ? "" : this.fill("published", { as_of: this.time(asOf) });
    return published + (this.now && this.#day(asOf) === this.#day(this.now) ? this.texts.new_today : "");
  }

  /** The advice that holds only for a day after the moment of an alarm. */
  #avoid({ end }) {
    return end && this.now && Date.parse(this.now) - Date.parse(end) > DAY_MS ? "" : this.texts.avoid;
  }

  #likely({ likely_at_least: least, count_at_most: most }) {
    return least === undefined ? "" : this.fill("likely", { least, most });
  }

  #fill(key, known, more = {}) {
    const before = known.start && known.start === known.end ? this.texts.at_moment : this.#window("window_before", known);
    const { reported_percent: percent } = known;
    return this.fill(key, {
      since: known.counted_since ? this.time(known.counted_since) : this.texts.earlier_alarm,
      fresh: known.since_at_most,
      in_all: this.#all("in_all", known, before),
      whole: this.#all("whole", known, before),
      strength: this.#strength(known),
      published: this.#published(known),
      avoid: this.#avoid(known),
      likely: this.#likely(known),
      reported: percent === undefined ? "" : this.fill("reported", { percent }),
      threshold: known.threshold,
      most: known.count_at_most,
      least: known.count_at_least,
      resumes: this.time(known.resumes_at),
      as_of: this.time(known.as_of),
      before,
      level: known.threshold ? this.fill("level", { threshold: known.threshold }) : "",
      when: known.end ? this.#when(known) : "",
      reason: known.state === "unknown" ? this.texts[known.reason] : "",
      ...more,
    });
  }
}
