/* The present time as the server sees it. The device's own clock is never trusted: it may be wrong by days. */

const LATE_MS = 5000;

export class ServerClock {
  #server = null;
  #mark = ServerClock.mark();
  #slack = 0;

  /** This moment on the device's two clocks. One stops in sleep, the other one may jump. */
  static mark() {
    return { steady: performance.now(), wall: Date.now() };
  }

  /** Takes the server's time in ms as that of `mark`: for a response, the moment at which it was requested. */
  set(now, mark = ServerClock.mark()) {
    this.#server = now;
    this.#mark = mark;
    this.#slack = this.elapsed(); // how far this clock may be ahead
  }

  /** The present time in ms. If the device slept, or its clock jumped, the later of two measures counts. */
  now() {
    if (this.#server === null) return Date.now();
    return this.#server + this.elapsed();
  }

  /** Milliseconds since the server's time was taken. */
  elapsed() {
    return Math.max(performance.now() - this.#mark.steady, Date.now() - this.#mark.wall, 0);
  }

  /** Whether a time of the server, received now, would turn this clock back, because it was delayed. */
  isLate(now) {
    return this.#server !== null && now < this.now() - LATE_MS - this.#slack;
  }
}
