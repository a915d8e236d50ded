/**
 * Keeps in memory which boxes are alive, how they divide rates, and the events of the live stream. For tests: the
 * reference implementation for ../postgres/live.ts. An instance outlives its sessions. Any thread; each instance
 * belongs to one thread.
 */
import type {
  LiveBatch,
  LiveDelta,
  LiveEntry,
  LiveForget,
  LiveHead,
  LiveSession,
  LiveTruth,
  StoredLive,
} from '../shared/live.ts';
import type { RatesDelta, RateWrite, StoredRate } from '../shared/rates.ts';
import { TruthUnavailableError } from '../shared/truth.ts';
import type { MemoryTrouble } from './truth.ts';

/** Number of ids that a crash skips, and that {@link LiveSession.tidy} skips for a forgotten organization. */
const ID_BLOCK = 10_000;

interface Org {
  head: LiveHead;
  is_wanted: boolean;
  stored: StoredLive[];
}

export class MemoryLive implements LiveTruth {
  readonly orgs = new Map<string, Org>();
  readonly boxes = new Set<string>();
  /** Ids up to which a crash may have lost events, by organization. */
  readonly reserved = new Map<string, number>();
  rates = { epoch: 1, version: 0, entries: new Map<number, StoredRate>() };
  readonly trouble: () => MemoryTrouble;
  readonly kept_events: number;
  readonly divided_keys: number;

  /**
   * @param trouble called when a session is opened and at each of its calls; returns how the call fails, or null
   * @param kept_events number of events of an organization that stay readable
   * @param divided_keys maximum number of keys whose rates are not divided equally
   */
  constructor(trouble: () => MemoryTrouble = () => null, kept_events = ID_BLOCK, divided_keys = 1_024) {
    this.trouble = trouble;
    this.kept_events = kept_events;
    this.divided_keys = divided_keys;
  }

  async openLive(box: string): Promise<LiveSession> {
    if (this.trouble() !== null) throw new TruthUnavailableError('the database cannot be reached');
    return new MemoryLiveSession(this, box);
  }

  /** Simulates a crash of the database: only the reserved ids remain, and the epoch of the rates, raised by one. */
  crash(): void {
    for (const [org, { head }] of this.orgs) this.reserved.set(org, head.last_id + ID_BLOCK);
    this.orgs.clear();
    this.boxes.clear();
    this.rates = { epoch: this.rates.epoch + 1, version: 0, entries: new Map() };
  }

  /** Behaves as if the organization's last reader had left long ago. */
  forgetReaders(orgId: string): void {
    const org = this.orgs.get(orgId);
    if (org !== undefined) org.is_wanted = false;
  }
}

class MemoryLiveSession implements LiveSession {
  readonly #live: MemoryLive;
  readonly #box: string;
  #isOver = false;

  constructor(live: MemoryLive, box: string) {
    this.#live = live;
    this.#box = box;
  }

  beat(): Promise<string[]> {
    return this.#call(() => [...this.#live.boxes.add(this.#box)]);
  }

  readRates(after: number): Promise<RatesDelta> {
    return this.#call(() => {
      const { epoch, version, entries } = this.#live.rates;
      const changed = [...entries.values()].filter((entry) => entry.version > after);
      return { epoch: `${epoch}`, version, changed };
    });
  }

  writeRates(epoch: string, writes: readonly RateWrite[]): Promise<(number | null)[]> {
    return this.#call(() =>
      writes.map(({ key, base, data }) => {
        const { rates } = this.#live;
        const known = rates.entries.get(key) ?? { version: 0, data: null };
        if (epoch !== `${rates.epoch}` || (known.data === null ? 0 : known.version) !== base) return null;
        const stored = [...rates.entries.values()].filter((entry) => entry.data !== null).length;
        if (known.data === null && (data === null || stored >= this.#live.divided_keys)) return null;
        rates.entries.set(key, { key, version: ++rates.version, data });
        return rates.version;
      }),
    );
  }

  want(orgs: readonly string[]): Promise<LiveHead[]> {
    return this.#call(() =>
      [...new Set(orgs)].map((org_id) => {
        const { orgs, reserved } = this.#live;
        const known = orgs.get(org_id);
        if (known === undefined) {
          const start = reserved.get(org_id) ?? 0;
          orgs.set(org_id, {
            head: { org_id, last_id: start, lost_id: start },
            is_wanted: true,
            stored: [],
          });
        } else if (!known.is_wanted) {
          known.is_wanted = true;
          known.head.lost_id = ++known.head.last_id;
        }
        return { ...orgs.get(org_id)!.head };
      }),
    );
  }

  findWanted(orgs: readonly string[]): Promise<string[]> {
    return this.#call(() => orgs.filter((org) => this.#live.orgs.get(org)?.is_wanted === true));
  }

  write(batches: readonly LiveBatch[]): Promise<void> {
    return this.#call(() => {
      for (const batch of batches) {
        const org = this.#live.orgs.get(batch.org_id);
        if (org?.is_wanted !== true) continue;
        const { head } = org;
        if (batch.has_lost) head.lost_id = ++head.last_id;
        for (const forget of batch.forgets)
          org.stored = org.stored.filter((stored) => !('event' in stored && isMeant(stored.event, forget)));
        for (const forget of batch.forgets) org.stored.push({ id: ++head.last_id, forget });
        for (const event of batch.events) org.stored.push({ id: ++head.last_id, event });
        head.lost_id = Math.max(head.lost_id, head.last_id - this.#live.kept_events);
        org.stored = org.stored.filter(({ id }) => id > head.last_id - this.#live.kept_events);
      }
    });
  }

  read(after: ReadonlyMap<string, number>, limit: number): Promise<LiveDelta[]> {
    return this.#call(() =>
      [...after].flatMap(([org_id, id]) => {
        const org = this.#live.orgs.get(org_id);
        if (org === undefined || org.head.last_id <= id) return [];
        const from = Math.max(id, org.head.lost_id);
        const stored = org.stored.filter((entry) => entry.id > from).slice(0, limit);
        return [{ ...org.head, stored }];
      }),
    );
  }

  tidy(): Promise<void> {
    return this.#call(() => {
      for (const [org_id, { head, is_wanted }] of this.#live.orgs) {
        if (is_wanted) continue;
        this.#live.reserved.set(org_id, head.last_id + ID_BLOCK);
        this.#live.orgs.delete(org_id);
      }
    });
  }

  expire(before_ms: number): Promise<void> {
    return this.#call(() => {
      for (const org of this.#live.orgs.values())
        org.stored = org.stored.filter((stored) => !('event' in stored && stored.event.at_ms < before_ms));
    });
  }

  async close(): Promise<void> {
    this.#isOver = true;
    this.#live.boxes.delete(this.#box);
  }

  async #call<Value>(work: () => Value): Promise<Value> {
    await turn();
    const trouble = this.#isOver ? 'lost before' : this.#live.trouble();
    if (trouble === 'lost before') throw new TruthUnavailableError('the connection broke');
    const value = work();
    await turn();
    if (trouble === 'lost after') throw new TruthUnavailableError('the connection broke');
    return value;
  }
}

function isMeant(event: LiveEntry, { run_id, project_id, before_ms }: LiveForget): boolean {
  return (
    (run_id === null || event.run_id === run_id) &&
    (project_id === null || event.project_id === project_id) &&
    (before_ms === 0 || event.at_ms < before_ms)
  );
}

/** Gives the event loop a turn, as waiting for a database would. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
