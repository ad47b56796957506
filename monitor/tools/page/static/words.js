/* Describes answers in the words of the page's language. monitor/tools/page/words.py does the same on the server. */

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

  time(date) {
    return date ? this.moment.format(date) : "–";
  }

  /** A few words: the answer, or why there is none. */
  short(known) {
    if (known.state === "unknown") return this.texts[known.reason];
    return this.#fill(this.#choose(known, "short"), known);
  }

  /** Pairs of title and text: what an answer means, what it does not mean, and what to do. */
  sections(known) {
    const hotSpot = known.state === "noisy_count" && known.about?.kind === "hot_spots";
    const kind = hotSpot ? "hot_spot" : known.state;
    return [
      [this.texts.means, this.#fill(this.#choose(known, "means"), known)],
      [this.texts.not, this.#fill(`${kind}_not`, known)],
      [this.texts.do, this.#fill(`${kind}_do`, known)],
    ];
  }

  question(about) {
    return this.fill(`${about.kind}_monitor`, { name: about.monitor });
  }

  #choose({ state, countAtLeast, countAtMost }, kind) {
    if (state !== "noisy_count" || !countAtLeast) return `${state}_${kind}`;
    return countAtMost === null ? `at_least_${kind}` : `between_${kind}`;
  }

  #fill(key, { about, asOf, countAtMost, countAtLeast, reason, state }) {
    const [start, end] = [this.time(about?.start), this.time(about?.end)];
    const moment = Number(about?.start) === Number(about?.end);
    return this.fill(key, {
      threshold: about?.threshold,
      most: countAtMost,
      least: countAtLeast,
      resumes: this.time(about?.resumesAt),
      as_of: this.time(asOf),
      when: this.fill(moment ? "at_time" : "in_window", { start, end }),
      reason: state === "unknown" ? this.texts[reason] : "",
    });
  }
}
