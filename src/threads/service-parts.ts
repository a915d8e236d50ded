/**
 * The parts of a service, started one by one, so that it can be stopped at any point of its start. Main thread.
 */

/** A part of a service, with its start and its stop. */
interface ServicePart<T> {
  start(): T | Promise<T>;
  stop(started: T): unknown;
}

export class ServiceParts {
  readonly #stops: (() => unknown)[] = [];

  /** Starts a part, which will be stopped before the parts that were started earlier. */
  async start<T>({ start, stop }: ServicePart<T>): Promise<T> {
    const started = await start();
    this.#stops.push(() => stop(started));
    return started;
  }

  /**
   * Stops the parts in reverse order. Parts that are started meanwhile are stopped by the next
   * call.
   */
  async stop(): Promise<void> {
    for (const stop of this.#stops.splice(0).reverse()) await stop();
  }
}
