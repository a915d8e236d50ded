/**
 * The shared part of an index, on the thread that changes the index. hnsw-index.ts and exact-index.ts report all their
 * changes here, and keep their vectors in the memory of this part. index-catalog.ts gives this part its name. Any
 * thread; each instance belongs to one thread.
 */
import { type Graph, type GraphEngine, NO_SHARED_ID, type SharedHandle } from '../../native/graph-engine.ts';

/** The data about a vector by which a search filters or prefers it, and its name in results. */
interface SharedLabel {
  name: string;
  kind: string;
  family: string;
}

export class SharedIndex {
  readonly #engine: GraphEngine;
  readonly #handle: SharedHandle;
  #depth = 0;

  constructor(engine: GraphEngine, handle: SharedHandle) {
    this.#engine = engine;
    this.#handle = handle;
  }

  /** Runs `work` while no other thread searches the index. Methods that change the index throw outside of it. */
  change<Value>(work: () => Value): Value {
    if (this.#depth === 0) this.#engine.beginChange(this.#handle);
    this.#depth++;
    try {
      return work();
    } finally {
      this.#depth--;
      if (this.#depth === 0) this.#engine.endChange(this.#handle);
    }
  }

  /** Memory in bytes, without vectors and graph. */
  get bytes(): number {
    return this.#engine.measureShared(this.#handle);
  }

  makeBlock(number: number, vectors: number): Uint8Array {
    return this.#engine.makeVectorBlock(this.#handle, number, vectors);
  }

  dropBlock(): void {
    this.#engine.dropBlock(this.#handle);
  }

  enter(id: number): void {
    this.#engine.enterVector(this.#handle, id);
  }

  leave(id: number): void {
    this.#engine.leaveVector(this.#handle, id);
  }

  await(id: number): void {
    this.#engine.awaitVector(this.#handle, id);
  }

  link(id: number): void {
    this.#engine.linkVector(this.#handle, id);
  }

  unlink(): void {
    this.#engine.unlinkVector(this.#handle);
  }

  /**
   * Makes searches use this graph from now on.
   * @param ids by point; null for a point that is marked as removed
   */
  takeGraph(graph: Graph, ids: readonly (number | null)[]): void {
    const points = Uint32Array.from(ids, (id) => id ?? NO_SHARED_ID);
    this.#engine.takeGraph(this.#handle, graph, points);
  }

  dropGraph(): void {
    this.#engine.dropGraph(this.#handle);
  }

  /** Stores the data about a vector. Searches do not find a vector without it. */
  describe(id: number, { name, kind, family }: SharedLabel): void {
    this.change(() => this.#engine.describeVector(this.#handle, id, name, kind, family));
  }

  forget(id: number): void {
    this.change(() => this.#engine.describeVector(this.#handle, id, '', '', ''));
  }
}
