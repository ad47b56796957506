/* Search by name and kind of place, on the device. If nothing matches exactly, words with a typing error match too. */

export const fold = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

/** The number of typing errors that are forgiven in a word: none in short ones, because too much would match. */
const forgiven = (word) => (word.length < 4 ? 0 : word.length < 8 ? 1 : 2);

/** Whether a word is the beginning of another one, apart from missing, other, additional or exchanged letters. */
export function isNear(wanted, word) {
  const most = forgiven(wanted);
  let [before, row] = [[], Array.from({ length: word.length + 1 }, (_, column) => column)];
  for (let line = 1; line <= wanted.length; line += 1) {
    const next = [line];
    for (let column = 1; column <= word.length; column += 1) {
      const same = wanted[line - 1] === word[column - 1];
      let cost = Math.min(row[column] + 1, next[column - 1] + 1, row[column - 1] + (same ? 0 : 1));
      if (line > 1 && column > 1 && wanted[line - 1] === word[column - 2] && wanted[line - 2] === word[column - 1]) {
        cost = Math.min(cost, before[column - 2] + 1);
      }
      next.push(cost);
    }
    if (Math.min(...next) > most) return false;
    [before, row] = [row, next];
  }
  return Math.min(...row) <= most;
}

export class Search {
  #texts;

  /** `texts`: by row, the name and the kind of the place. */
  constructor(texts) {
    this.#texts = texts.map(fold);
  }

  /** Returns the rows that match all words, and whether they are only similar; null without a word. */
  find(query) {
    const wanted = fold(query).split(/\s+/).filter(Boolean);
    if (!wanted.length) return null;
    const select = (matches) => new Set(this.#texts.flatMap((text, row) => (matches(text) ? [row] : [])));
    const exact = select((text) => wanted.every((word) => text.includes(word)));
    if (exact.size) return { rows: exact, similar: false };
    const similar = select((text) => {
      const words = text.split(/[^\p{L}\p{N}]+/u);
      return wanted.every((one) => words.some((word) => isNear(one, word)));
    });
    return { rows: similar, similar: true };
  }
}
