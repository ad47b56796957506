/* The curve of an upper bound: what was published about a place, bucket by bucket. */

import { element } from "./dom.js";

const [WIDTH, HEIGHT] = [600, 120];
const SVG = "http://www.w3.org/2000/svg";

/** The points of a curve in steps, from 0 at the bottom to `most` at the top. `periods`: the earliest first. The last
 * step is as long as an average one. */
export function trace(periods, most) {
  const since = periods.map((period) => Date.parse(period.since));
  const [first, last] = [since[0], since.at(-1)];
  since.push(last + (last - first) / Math.max(1, periods.length - 1));
  const scale = WIDTH / Math.max(1, since.at(-1) - first);
  const y = ({ count_at_most: count }) => HEIGHT - (HEIGHT * count) / Math.max(1, most);
  return periods.flatMap((period, index) => [since[index], since[index + 1]].map((at) => [(at - first) * scale, y(period)]));
}

/** Draws the bounds of one monitor. `periods`: the latest first, as in a history. The list below has each number. */
export function draw(periods, words) {
  const sorted = [...periods].reverse();
  const counts = sorted.map((period) => period.count_at_most);
  const [least, most] = [Math.min(...counts), Math.max(...counts)];
  const [since, until] = [words.time(sorted[0].since), words.time(sorted.at(-1).since)];
  const label = words.fill("curve", { since, until, least, most });
  const svg = document.createElementNS(SVG, "svg");
  const line = document.createElementNS(SVG, "polyline");
  const points = trace(sorted, most).map((point) => point.map((each) => each.toFixed(1)).join(","));
  for (const [name, value] of [["points", points.join(" ")], ["vector-effect", "non-scaling-stroke"]]) line.setAttribute(name, value);
  const attributes = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" };
  for (const [name, value] of Object.entries(attributes)) svg.setAttribute(name, value);
  svg.append(line);
  return element("figure", { class: "curve" }, svg, element("figcaption", {}, label));
}
