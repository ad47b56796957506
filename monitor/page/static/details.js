/* What opens below a place: its answers in words, the certain interval, and what was published. */

import { writeAddress } from "./address.js";
import { draw } from "./curve.js";
import { element, time } from "./dom.js";
import { markOf, nameOf, read } from "./store.js";

/** Returns the elements that describe the place of a row. */
export function describe(row, { store, words }) {
  const statements = store.statements(row);
  const shown = statements.length ? statements : [store.known[row]];
  const parts = shown.map((known, index) => statement(known, words, index === 0));
  const seen = store.seen[row];
  if (store.known[row].state === "unknown" && seen) {
    const before = { state: words.label(markOf(seen), seen), as_of: words.time(seen.as_of) };
    parts.unshift(element("p", { class: "before" }, words.fill("before", before)));
  }
  return parts;
}

/** What to do follows from the most cautious answer only: "nothing special" beside an alarm would mislead. */
function statement(known, words, leads) {
  const { texts } = words;
  const [means, not, act] = words.sections(known);
  const sections = leads ? [means, act, not] : [means, not];
  const list = element("dl", {}, ...sections.flatMap(([title, text]) => pair(title, text)));
  for (const name of ["as_of", "valid_until"]) {
    if (known[name]) list.append(...pair(texts[name], time(known[name], words.time(known[name]))));
  }
  const question = known.kind && element("p", { class: "question" },
    element("b", {}, words.label(markOf(known), known)), ` · ${words.question(known)}`);
  return element("section", { class: `statement ${known.state}` }, question, interval(known, words), list);
}

const pair = (title, text) => [element("dt", {}, title), element("dd", {}, text)];

/** The certain interval of the number of people, as of one tick, with a mark at the threshold. A noisy count is of an
 * earlier tick than the lower bound beside it, so it is drawn from 0. */
function interval({ state, count_at_least: bound, likely_at_least: likely, count_at_most: most, threshold }, words) {
  if (most === undefined || !threshold) return null;
  const least = state === "safe" ? bound : 0;
  const scale = Math.max(most, threshold) * 1.15;
  const percent = (count) => `${((100 * count) / scale).toFixed(2)}%`;
  const bar = element("span", { class: "bar" });
  bar.style.left = percent(least);
  bar.style.width = percent(Math.max(most - least, scale / 200));
  const sure = likely === undefined ? null : element("span", { class: "bar likely" });
  if (sure) {
    bar.classList.add("certain");
    sure.style.left = percent(likely);
    sure.style.width = percent(Math.max(most - likely, scale / 200));
  }
  const mark = element("span", { class: "threshold" });
  mark.style.left = percent(threshold);
  const label = words.fill("interval", { least, most, threshold });
  const scaleText = element("span", { class: "ends", "aria-hidden": "true" }, `${least}–${most}`);
  const track = element("span", { class: "track", role: "img", "aria-label": label }, bar, sure, mark);
  return element("p", { class: "interval" }, element("span", { class: "label" }, words.texts.interval_label), track, scaleText);
}

/** Gives the address of a place to what the device has for this, or else to the clipboard, or else shows it. */
async function share(row, { store, words, button, answer }) {
  const hash = writeAddress({ place: store.ids[row], at: store.at });
  const url = new URL(`${words.language}.html${hash}`, document.baseURI).href;
  try {
    if (navigator.share) await navigator.share({ title: store.names[row], url });
    else {
      await navigator.clipboard.writeText(url);
      button.textContent = words.texts.copied;
    }
  } catch (error) {
    if (error.name !== "AbortError") answer.replaceChildren(element("p", {}, url)); // the visitor may have closed it
  }
}

/** Returns the buttons of a place: keep it, share it, and show what was published. */
export function actions(row, { store, words, mine, refresh }) {
  const { texts } = words;
  const id = store.ids[row];
  const keep = element("button", { type: "button", "aria-pressed": String(mine.has(id)) });
  const label = () => { keep.textContent = mine.has(id) ? texts.forget : texts.keep; };
  label();
  keep.addEventListener("click", () => {
    mine.toggle(id);
    keep.setAttribute("aria-pressed", String(mine.has(id)));
    label();
    refresh();
  });
  const past = element("div", { class: "past", "aria-live": "polite" });
  const show = async () => {
    past.replaceChildren(await published(id, words).catch(() => element("p", {}, texts.unreachable)));
  };
  const button = element("button", { type: "button", onclick: show }, texts.history);
  const sharing = element("button", { type: "button" }, texts.share);
  sharing.addEventListener("click", () => share(row, { store, words, button: sharing, answer: past }));
  const feed = element("a", { href: `${nameOf(id)}.atom`, type: "application/atom+xml" }, texts.feed);
  return element("div", { class: "actions" }, keep, sharing, button, feed, past);
}

/** The periods in which an answer stayed the same, the latest first. */
async function published(id, words) {
  const { history } = await read(`${nameOf(id)}.json`);
  if (!history.length) return element("p", {}, words.texts.history_none);
  const lines = history.map((period) => {
    const { since, until, time: moment } = period;
    const known = { ...period, reason: "input_incomplete", as_of: until };
    const times = [since, until].map((at) => (at ? words.time(at) : ""));
    const published = times[0] === times[1] ? times[0] || words.texts.whole_time : times.join(" – ").trim();
    const when = moment ? [words.time(moment), element("small", {}, ` (${published})`)] : [published];
    return element("li", { class: period.state }, element("span", { class: "when" }, ...when),
      element("b", {}, words.texts[markOf(period)]), ` ${words.short(known)}`);
  });
  const bounds = history.filter((period) => period.state === "bounded" && period.since);
  const byMonitor = [...new Set(bounds.map((period) => period.monitor))].map((name) => bounds.filter((period) => period.monitor === name));
  const curves = byMonitor.filter((each) => each.length > 1).map((each) => draw(each, words));
  return element("div", {}, ...curves, element("ol", { class: "periods" }, ...lines));
}
