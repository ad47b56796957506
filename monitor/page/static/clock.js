/* The present time as the server sees it. The device's own clock is never trusted: it may be wrong by days. */

export class ServerClock {
  #server = null;
  #steady = 0;
  #wall = 0;

  /** Takes the server's time in ms, which was just received. */
  set(now) {
    this.#server = now;
    this.#steady = performance.now();
    this.#wall = Date.now();
  }

  /** The present time in ms. If the device slept, or its clock jumped, the later of two measures counts. */
  now() {
    if (this.#server === null) return Date.now();
    return this.#server + this.elapsed();
  }

  /** Milliseconds since the server's time was received. */
  elapsed() {
    return Math.max(performance.now() - this.#steady, Date.now() - this.#wall, 0);
  }
}
