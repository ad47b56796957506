/* The page: replaces the list of the file with one that updates itself, and adds the map and the tools. */

import { readAddress, writeAddress } from "./address.js";
import { LastVisit, MyPlaces, distance, locate } from "./device.js";
import { element, icon } from "./dom.js";
import { List } from "./list.js";
import { PlaceMap } from "./map.js";
import { Search } from "./search.js";
import { MARKS, STATES, Store, levelOf } from "./store.js";
import { Timeline } from "./timeline.js";
import { WasThere, covers } from "./was_there.js";
import { Words } from "./words.js";

const byId = (id) => document.getElementById(id);
const setup = JSON.parse(byId("setup").textContent);
const { default: texts } = await import(new URL(setup.texts, document.baseURI));
const words = new Words(texts, setup.language, setup.timezone);
const store = new Store(setup);
const mine = new MyPlaces();
const visit = new LastVisit();
const MOST_NAMED = 3;
const RELOAD_MS = 10_000;
const YOUNG_MS = 60_000;

/** The start page has no language of its own: a visitor whose browser prefers another one goes to that page. */
function chooseLanguage() {
  const known = [...document.querySelectorAll(".languages a")].map((link) => link.lang);
  const wanted = navigator.languages.map((tag) => tag.split("-")[0]).find((code) => known.includes(code));
  if (setup.first && wanted && wanted !== setup.language) location.replace(`${wanted}.html${location.search}${location.hash}`);
}

const COLUMNS = { kind: "kinds", district: "districts" }; // by which places can be chosen, and their names in the registry

/** What the visitor has chosen to see. `state`, `kind`, `district`, `day` (the alarms that cover it), `only` ("mine" or
 * "changed") and `search` combine. */
const choice = { state: null, kind: "", district: "", day: "", only: null, search: "", near: null, newest: false };
const asked = readAddress(location.hash);
const buttons = {};
const fields = {}; // `input`: the search, and the choices of a kind, a district and a day
let said = { asOf: undefined, rows: new Set() }; // the changes of the latest tick
let order = []; // all rows, sorted by name
let search;
let list;
let map;
let timeline;

const levelAt = (row) => levelOf(store.known[row]);
const hasChanged = (row) => visit.was(store.ids[row], levelAt(row));
const nearby = (row) => {
  const [latitude, longitude] = [store.latitudes[row], store.longitudes[row]];
  return choice.near && latitude !== null && longitude !== null ? distance(choice.near, { latitude, longitude }) : null;
};

const hasAlarmOn = (row, day) => {
  const visit = { from: `${day}T00:00`, until: `${day}T23:59` };
  return store.alarms(row).some((alarm) => covers(alarm, visit, (at) => words.local(at)));
};

/** Returns the rows to show, in the order of the list: by distance if that is known, else the strongest and latest alarms first. */
function select(found) {
  const shows = (row) =>
    (!choice.state || levelAt(row) === choice.state)
    && Object.entries(COLUMNS).every(([name, column]) => !choice[name] || store[column][row] === choice[name])
    && (!choice.day || hasAlarmOn(row, choice.day))
    && (choice.only !== "mine" || mine.has(store.ids[row]))
    && (choice.only !== "changed" || hasChanged(row))
    && (!found || found.rows.has(row));
  const rows = order.filter(shows);
  if (choice.near) {
    const far = new Map(rows.map((row) => [row, nearby(row) ?? Infinity]));
    return rows.sort((a, b) => far.get(a) - far.get(b));
  }
  const latest = (a, b) => store.known[b].alarmedAt - store.known[a].alarmedAt;
  if (choice.newest) return rows.sort(latest);
  const buckets = Object.fromEntries(MARKS.map((mark) => [mark, []]));
  for (const row of rows) buckets[store.known[row].mark].push(row);
  return MARKS.flatMap((mark) => buckets[mark].sort(latest));
}

/** Says why the list is empty, or that a search has found only similar names. */
function explain(rows, found) {
  const chosen = [choice.state, choice.only, choice.kind && "kind", choice.district && "kind", choice.day && "day", found && "search"].filter(Boolean);
  let text = "";
  if (!rows.length) text = words.fill(chosen.length === 1 ? `none_${chosen[0]}` : "none_both", { search: choice.search.trim() });
  else if (found?.similar) text = words.fill("similar", { search: choice.search.trim() });
  const note = byId("no-match");
  note.hidden = !text;
  if (note.textContent !== text) note.textContent = text;
}

function refresh() {
  const found = search.find(choice.search);
  const rows = select(found);
  explain(rows, found);
  list.show(rows);
  map?.show(rows);
  byId("shown").textContent = words.fill("shown", {
    count: words.number.format(rows.length), total: words.number.format(store.ids.length),
  });
  for (const [name, button] of Object.entries(buttons)) {
    const pressed = { near: choice.near !== null, newest: choice.newest, mine: choice.only === "mine", changed: choice.only === "changed" }[name]
      ?? choice.state === name;
    button.setAttribute("aria-pressed", String(pressed));
  }
  const changed = order.filter(hasChanged).length;
  buttons.changed.querySelector("b").textContent = changed ? words.number.format(changed) : "";
  keepAddress();
}

/** Writes what is shown into the address, so that a reload, a bookmark and the other languages show it too. */
function keepAddress() {
  const place = store.ids[list.selected];
  const hash = writeAddress({ ...choice, place, newest: choice.newest ? "1" : "", at: store.at });
  if (hash !== location.hash) history.replaceState(null, "", location.pathname + location.search + hash);
  for (const link of document.querySelectorAll(".languages a")) link.hash = hash;
}

/** Chooses what an address asks for. */
function choose({ search: text, state, newest, ...others }) {
  if (STATES.includes(state)) choice.state = state;
  if (text) fields.input.value = choice.search = text;
  for (const [name, column] of Object.entries(COLUMNS)) {
    if (fields[name] && store[column].includes(others[name])) fields[name].value = choice[name] = others[name];
  }
  if (/^\d{4}-\d{2}-\d{2}$/.test(others.day)) fields.day.value = choice.day = others.day;
  if (newest) choice.newest = true;
}

/** Shows the time and opens the place that an address asks for. */
async function reveal({ at, place }) {
  if (at) await store.show(at).catch(() => store.show(null));
  const row = store.ids.indexOf(place);
  if (row >= 0) list.open(row);
}

function showCounts() {
  const counts = store.counts();
  for (const state of STATES) buttons[state].querySelector("b").textContent = words.number.format(counts[state]);
  buttons.bounded.parentElement.hidden = !counts.bounded && choice.state !== "bounded";
  const latest = store.at ?? store.asOf;
  const asOf = latest ? `${words.time(latest)} ${words.zone}` : null;
  const signed = byId("signed");
  if (signed) signed.hidden = counts.unknown === store.ids.length; // with a forged answer, every place is unknown
  byId("as-of").textContent = asOf ? words.fill("as_of_line", { as_of: asOf }) : texts.nothing_yet;
  return { ...counts, as_of: asOf ?? "–" };
}

/** Announces the changes of this tick to screen readers. Nothing is repeated while nothing changes. */
function announce(counts, fresh) {
  if (said.asOf !== store.asOf) said = { asOf: store.asOf, rows: new Set() };
  else if (!fresh.length) return;
  for (const row of fresh) said.rows.add(row);
  if (store.at !== null) return; // the numbers are those of the past
  const changed = [...said.rows];
  const named = changed.slice(0, MOST_NAMED).map((row) =>
    words.fill("summary_changed", { name: store.names[row], state: texts[levelAt(row)] }));
  if (changed.length > MOST_NAMED) named.push(words.fill("summary_more", { count: changed.length - MOST_NAMED }));
  const bounded = counts.bounded ? [words.fill("summary_bounded", counts)] : [];
  const text = [words.fill("summary", counts), ...bounded, ...named].join(" ");
  if (byId("live").textContent !== text) byId("live").textContent = text;
}

function showBanner() {
  const banner = byId("banner");
  const age = store.asOf ? store.clock.now() - Date.parse(store.asOf) : 0;
  let [text, kind] = ["", ""];
  if (store.at !== null) [text, kind] = [words.fill("past", { as_of: words.time(store.at) }), "past"];
  else if (!store.reachable) [text, kind] = [words.fill("unreachable_banner", { since: words.time(store.lostAt) }), "lost"];
  else if (age > 2 * store.slotMs) [text, kind] = [texts.stale, "stale"];
  banner.hidden = !text;
  banner.className = `banner ${kind}`;
  if (banner.textContent !== text) banner.textContent = text;
  document.documentElement.classList.toggle("is-past", store.at !== null);
}

function onChange({ detail }) {
  words.now = store.at ?? store.asOf;
  showBanner();
  const counts = showCounts();
  timeline.say();
  refresh();
  announce(counts, detail.changed);
}

function toggleButton(name, parts, act) {
  const button = element("button", { type: "button", class: `chip ${name}`, "aria-pressed": "false" }, ...parts);
  button.addEventListener("click", () => {
    act();
    refresh();
  });
  buttons[name] = button;
  return button;
}

function buildCounts() {
  const items = STATES.map((state) => element("li", {}, toggleButton(state,
    [icon(state), element("b", {}), element("span", {}, texts[state])],
    () => { choice.state = choice.state === state ? null : state; })));
  byId("counts").replaceChildren(...items);
}

async function findNear() {
  if (choice.near) {
    choice.near = null;
    return;
  }
  try {
    choice.near = await locate();
  } catch {
    byId("banner").textContent = texts.near_failed;
    byId("banner").hidden = false;
    return;
  }
  refresh();
}

/** Makes a field for a choice. */
function chooseWith(name, field) {
  fields[name] = field;
  field.addEventListener("change", () => {
    choice[name] = field.value;
    refresh();
  });
  return field;
}

/** Returns the choice of a kind or a district; null if there are no two of them. `all`: the name of no choice. */
function buildChoice(name, label, all) {
  const values = [...new Set(store[COLUMNS[name]].filter(Boolean))].sort(new Intl.Collator(setup.language).compare);
  if (values.length < 2) return null;
  const options = ["", ...values].map((value) => element("option", { value }, value || all));
  return chooseWith(name, element("select", { class: "chip", "aria-label": label }, ...options));
}

function buildTools() {
  const input = element("input", {
    type: "search", placeholder: texts.search, "aria-label": texts.search, autocomplete: "off", spellcheck: "false",
  });
  input.addEventListener("input", () => {
    choice.search = input.value;
    refresh();
  });
  fields.input = input;
  const day = chooseWith("day", element("input", { type: "date" }));
  const more = element("button", { type: "button", class: "chip more-tools", "aria-expanded": "false" }, texts.tools);
  more.addEventListener("click", () => {
    more.setAttribute("aria-expanded", String(more.getAttribute("aria-expanded") === "false"));
  });
  const toggle = (only) => () => { choice.only = choice.only === only ? null : only; };
  byId("tools").append(input, more, element("div", { class: "chips" },
    buildChoice("kind", texts.kind, texts.all_kinds), buildChoice("district", texts.district, texts.all_districts),
    element("label", { class: "chip day" }, `${texts.alarm_day} `, day),
    toggleButton("newest", [texts.newest], () => { choice.newest = !choice.newest; }),
    toggleButton("near", [texts.near], findNear),
    toggleButton("mine", [icon("star"), texts.mine], toggle("mine")),
    toggleButton("changed", [`${texts.changed} `, element("b", {})], toggle("changed")),
  ));
  byId("tools").hidden = false;
}

function buildViews() {
  const context = { store, words, mine, visit, nearby, refresh };
  list = new List(context);
  byId("pages")?.remove();
  map = new PlaceMap({ store, words, open: (row) => list.open(row) });
  if (setup.background) map.loadBackground();
  byId("list").addEventListener("toggle", (event) => {
    const row = list.rowOf(event.target);
    if (row === null || (!event.target.open && !list.isSelected(row))) return;
    const selected = event.target.open ? row : null;
    list.select(selected);
    map.select(selected);
    keepAddress();
  }, true);
  timeline = new Timeline({ store, words });
  byId("tools").after(new WasThere({ store, words }).root, timeline.root);
}

function prepare() {
  const compare = new Intl.Collator(setup.language, { numeric: true }).compare;
  order = store.ids.map((_id, row) => row).sort((a, b) => compare(store.names[a], store.names[b]));
  search = new Search(store.names.map((name, row) => `${name} ${store.kinds[row]} ${store.districts[row]}`));
}

/** Makes every place of the file's list unknown: if nothing can be read, nothing in it would ever expire. */
function distrust() {
  showScriptFailed();
  if (document.documentElement.dataset.ready) return;
  const known = { state: "unknown", reason: "unreachable" };
  for (const place of document.querySelectorAll("#list .place")) {
    const name = place.querySelector(".name");
    place.className = "place unknown";
    place.replaceChildren(element("summary", {}, icon("unknown"), name,
      element("span", { class: "state" }, texts.unknown), element("span", { class: "short" }, words.short(known))));
  }
  const numbers = [...document.querySelectorAll("#counts b")];
  const total = numbers.reduce((sum, number) => sum + Number(number.textContent), 0);
  STATES.forEach((state, index) => { numbers[index].textContent = state === "unknown" ? total : 0; });
  document.body.classList.remove("served");
}

function showScriptFailed() {
  byId("banner").textContent = texts.script_failed;
  byId("banner").hidden = false;
}

/** Reloads the page. All visitors do this then, so each waits a random time; a page just loaded waits longer. */
function reload() {
  const pause = performance.now() < YOUNG_MS ? YOUNG_MS / 2 : 0;
  setTimeout(() => location.reload(), pause + Math.random() * RELOAD_MS);
}

async function start() {
  let ticked = null;
  chooseLanguage();
  document.documentElement.classList.toggle("embed", new URLSearchParams(location.search).has("embed"));
  store.addEventListener("failed", distrust);
  store.addEventListener("outdated", reload, { once: true });
  for (const name of ["visibilitychange", "resume"]) document.addEventListener(name, () => store.wake());
  for (const name of ["pageshow", "online"]) addEventListener(name, () => store.wake());
  store.addEventListener("change", (event) => {
    if (event.detail.first) {
      document.body.classList.remove("served");
      prepare();
      buildCounts();
      buildTools();
      buildViews();
      choose(asked);
    }
    onChange(event);
    if (event.detail.first) reveal(asked);
    if (store.asOf !== ticked) {
      ticked = store.asOf;
      timeline.update().catch(() => {});
    }
    document.documentElement.dataset.ready = "true";
  });
  store.addEventListener("beat", showBanner);
  addEventListener("hashchange", () => {
    const wanted = readAddress(location.hash);
    if (!store.known.length || !Object.keys(wanted).length) return;
    choose(wanted);
    refresh();
    reveal(wanted);
  });
  await store.start();
  addEventListener("pagehide", () => visit.keep(store.ids, store.at === null ? store.known : []));
}

start().catch(showScriptFailed);

export { map, store };
