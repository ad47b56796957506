/* Describes answers, as the server sends them, in words. monitor/tools/page/texts.py does the same on the server. */

export class Words {
  constructor(texts, language) {
    this.texts = texts;
    // The visitor's own form of the language, such as en-GB, decides how times are written.
    this.language = navigator.languages.find((one) => one.split("-")[0] === language) ?? language;
    const form = { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" };
    this.moment = new Intl.DateTimeFormat(this.language, form);
    this.number = new Intl.NumberFormat(this.language, { maximumFractionDigits: 1 });
  }

  fill(key, values = {}) {
    return this.texts[key].replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
  }

  time(text) {
    return text ? this.moment.format(new Date(text)) : "–";
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
      [this.texts.means, this.#fill(this.#choose(known, "means"), known)],
      [this.texts.not, this.#fill(`${kind}_not`, known)],
      [this.texts.do, this.#fill(`${kind}_do`, known)],
    ];
  }

  question({ kind, monitor }) {
    return this.fill(`${kind}_monitor`, { name: monitor });
  }

  #choose(known, kind) {
    if (known.state !== "noisy_count" || !known.count_at_least) return `${known.state}_${kind}`;
    return known.count_at_most === undefined ? `at_least_${kind}` : `between_${kind}`;
  }

  #fill(key, known) {
    const [start, end] = [this.time(known.start), this.time(known.end)];
    return this.fill(key, {
      threshold: known.threshold,
      most: known.count_at_most,
      least: known.count_at_least,
      resumes: this.time(known.resumes_at),
      as_of: this.time(known.as_of),
      when: this.fill(known.start === known.end ? "at_time" : "in_window", { start, end }),
      reason: known.state === "unknown" ? this.texts[known.reason] : "",
    });
  }
}
