/* The address of what is shown. It is the part after "#", which a browser sends to nobody. */

const KEYS = ["place", "search", "state", "kind", "district", "day", "newest", "at"];
const TIME = /^[0-9TZ:.-]{1,40}$/;

/** Returns what an address asks for, by key. A time of another form is left out, because it is part of a file name. */
export function readAddress(hash) {
  const given = new URLSearchParams(hash.slice(1));
  const asked = Object.fromEntries(KEYS.flatMap((key) => (given.get(key) ? [[key, given.get(key)]] : [])));
  if (asked.at && !TIME.test(asked.at)) delete asked.at;
  return asked;
}

/** Returns the address that asks for this, by key; empty if it asks for nothing. */
export function writeAddress(shown) {
  const given = KEYS.flatMap((key) => (shown[key] ? [[key, shown[key]]] : []));
  return given.length ? `#${new URLSearchParams(given)}` : "";
}
