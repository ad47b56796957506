/* The present time of the page. The device's own clock is never trusted: it may be wrong by days. */

export class PageClock {
  #known = null;
  #mark = PageClock.mark();

  /** This moment on the device's two clocks. One stops in sleep, the other one may jump. */
  static mark() {
    return { steady: performance.now(), wall: Date.now() };
  }

  /** Takes a time in ms as that of `mark`: for a response, the moment at which it was requested. */
  set(now, mark = PageClock.mark()) {
    this.#known = now;
    this.#mark = mark;
  }

  /** The present time in ms. If the device slept, or its clock jumped, the later of two measures counts. */
  now() {
    if (this.#known === null) return Date.now();
    return this.#known + this.elapsed();
  }

  /** Milliseconds since the time was taken. */
  elapsed() {
    return Math.max(performance.now() - this.#mark.steady, Date.now() - this.#mark.wall, 0);
  }
}
