/**
 * Links of the simulated world. Frames take time. Frames of one link arrive in order, frames of different links in any
 * order. A link can be cut, as by a crash of one side.
 */
import { Packr } from 'msgpackr';
import type { Frame, Link, LinkStats } from '../../src/runtime/link.ts';
import type { World } from './world.ts';

/** Faults of a link that breaks its guarantees, to test that the simulation detects them. */
export type LinkFault = 'none' | 'reorders' | 'duplicates';

interface SimLinkOptions {
  name: string;
  /** Maximum number of frames in transit in one direction; further frames are refused. */
  max_in_flight: number;
  fault: LinkFault;
  /** Called with each frame when it is sent. */
  watch: (frame: Frame) => void;
}

const packr = new Packr({ useRecords: false, variableMapSize: true, int64AsType: 'number' });

/** One end of a link. */
export class SimLink implements Link {
  onFrame: (frame: Frame) => void = () => {};
  onClose: () => void = () => {};
  readonly #world: World;
  readonly #options: SimLinkOptions;
  #peer!: SimLink;
  #closed = false;
  /** Whether the thread of this end has crashed; then it neither sends nor receives frames. */
  #dead = false;
  #inFlight = 0;
  #lastArrivalMs = 0;
  #sent = 0;
  #refused = 0;

  private constructor(world: World, options: SimLinkOptions) {
    this.#world = world;
    this.#options = options;
  }

  /** The two ends of a new link. */
  static createPair(world: World, a: SimLinkOptions, b: SimLinkOptions): [SimLink, SimLink] {
    const [left, right] = [new SimLink(world, a), new SimLink(world, b)];
    left.#peer = right;
    right.#peer = left;
    return [left, right];
  }

  send(frame: Frame): boolean {
    if (this.#closed || this.#dead) return false;
    if (this.#inFlight >= this.#options.max_in_flight) {
      this.#refused++;
      return false;
    }
    this.#options.watch(frame);
    const bytes = Uint8Array.from(packr.pack(frame));
    this.#sent++;
    this.#carry(bytes, this.#options.fault === 'reorders' && this.#world.prng.chance(0.2));
    if (this.#options.fault === 'duplicates' && this.#world.prng.chance(0.05)) this.#carry(bytes, false);
    return true;
  }

  flush(): void {}

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#world.at(this.#nextArrival(), () => this.#peer.#closeNow());
    this.onClose();
  }

  /** Ends the link because the thread of this end has crashed. Some of the frames that it sent may not arrive. */
  sever(): void {
    if (this.#dead) return;
    this.#dead = true;
    const peer = this.#peer;
    if (this.#closed || peer.#closed) return;
    this.#closed = true;
    const { prng } = this.#world;
    // The other end closes after the last frame has arrived, or at a random moment before. Frames that arrive after
    // that moment are lost.
    const atMs = prng.chance(0.5)
      ? this.#nextArrival()
      : this.#world.between(this.#world.nowMs, this.#nextArrival());
    this.#world.at(atMs, () => peer.#closeNow());
  }

  stats(): LinkStats {
    return {
      bytes_sent: 0,
      batches_sent: this.#sent,
      refused: this.#refused,
      bytes_in_flight: this.#inFlight,
    };
  }

  #carry(bytes: Uint8Array, overtakes: boolean): void {
    this.#inFlight++;
    const { prng } = this.#world;
    const delayMs = prng.chance(0.03) ? this.#world.between(5, 60) : this.#world.between(0.01, 1.5);
    let atMs = this.#world.nowMs + delayMs;
    if (!overtakes) {
      atMs = Math.max(atMs, this.#lastArrivalMs);
      this.#lastArrivalMs = atMs;
    }
    this.#world.at(atMs, () => {
      this.#inFlight--;
      this.#peer.#deliver(bytes);
    });
  }

  #nextArrival(): number {
    return Math.max(this.#lastArrivalMs, this.#world.nowMs + this.#world.between(0.01, 1));
  }

  #deliver(bytes: Uint8Array): void {
    if (this.#closed || this.#dead) return;
    const frame = packr.unpack(bytes) as Frame;
    this.#world.note(`${this.#options.name} < ${describeFrame(frame)}`);
    this.onFrame(frame);
  }

  #closeNow(): void {
    if (this.#closed || this.#dead) return;
    this.#closed = true;
    this.#world.note(`${this.#options.name} closed`);
    this.onClose();
  }
}

function describeFrame(frame: Frame): string {
  switch (frame.type) {
    case 'ask':
    case 'tell':
      return `${frame.type} ${frame.to.kind}/${frame.to.key} ${frame.name} ${JSON.stringify(frame.payload)}`;
    case 'reply':
      return `reply ${frame.id} ${JSON.stringify(frame.value)}`;
    case 'error':
      return `error ${frame.id} ${frame.error.code}`;
    case 'publish':
      return `publish ${frame.topic} ${JSON.stringify(frame.payload)}`;
    case 'subscribe':
    case 'unsubscribe':
      return `${frame.type} ${frame.topic}`;
    case 'fence':
    case 'fenced':
      return `${frame.type} ${frame.id}`;
  }
}
