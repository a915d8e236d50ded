/**
 * The live stream that several boxes share: writes events from the hubs of this box to the database, and reads what all
 * boxes have stored for the organizations that have readers on this box. Runs on the box's store thread; any thread may
 * send it requests.
 *
 * Each such organization has a feed: its latest events in a ring, which is filled from the database only. So
 * events of this box and of others have one order and one numbering, and a reader may continue at any box. A feed is
 * removed when its last reader leaves.
 */
import { type Clock, systemClock } from '../../src/std/clock.ts';
import type {
  LiveBatch,
  LiveDelta,
  LiveForget,
  LiveHead,
  LiveSession,
} from '../../src/storage/shared/live.ts';
import type { LivePublication, LiveTold, NumberedEvent, ReplayReply, ReplayRequest } from './protocol.ts';
import { EventRing } from './ring.ts';

interface ExchangeOptions {
  /** Maximum number of events, and total size of their texts, in memory for each organization with readers. */
  ring_events: number;
  ring_bytes: number;
  /** Age at which an event is no longer delivered; null: no limit. */
  max_age_ms: number | null;
  /** Interval of the checks for events of other boxes, while there are readers. */
  poll_ms: number;
  /** Interval at which events are written. All events of an interval are one statement. */
  write_ms: number;
  /** Interval at which this box reports to the database which organizations have readers. */
  want_ms: number;
}

const INTERVALS = { poll_ms: 100, write_ms: 50, want_ms: 30_000 } as const;
/**
 * How long this box assumes that an organization has readers after the database said so. The database keeps the entry
 * of an organization for longer than this after the last reader has left.
 */
const WANTED_MS = 60_000;
/** Interval at which expired events are removed from the database. */
const EXPIRE_MS = 3_600_000;
/** Maximum number of organizations with readers on this box. Readers of a further organization get no events. */
const FEEDS = 4_096;
/** Maximum number of batches that wait for the database. A further batch is refused. */
const OFFERS = 4_096;
/** Maximum number of batches of one statement. Each batch has at most `LIVE_BATCH_EVENTS` events. */
const STATEMENT_OFFERS = 64;
/**
 * Maximum number of events of an organization that one statement reads. If there are more events, another statement
 * follows at once.
 */
const READ_EVENTS = 500;

/** Sends events of an organization to a thread that has readers. */
export type LiveFollower = (told: LiveTold) => void;

interface Page {
  request: ReplayRequest;
  /** Whether events older than the ring have been read for this page. */
  was_read: boolean;
  /**
   * Number of the first read of the database that began after the request. This read has every event that the reader
   * can have seen on another box.
   */
  first_read: number;
  settle: (reply: ReplayReply | Error) => void;
}

interface Feed {
  /** null: the events must be read first, from `from_id` on. */
  ring: EventRing | null;
  from_id: number;
  /** Number of the last read of the database that has begun. */
  reads: number;
  /** Id up to which events may be missing in the database. */
  lost_id: number;
  /** Id up to which events were published or skipped. */
  told_id: number;
  followers: Set<LiveFollower>;
  pages: Page[];
  /** Whether the database knows that this organization has readers. */
  is_wanted: boolean;
}

interface Offer {
  batch: LiveBatch;
  settle: (error: Error | null) => void;
}

export class LiveExchange {
  readonly #options: ExchangeOptions;
  readonly #wake: () => void;
  readonly #clock: Pick<Clock, 'wallMs'>;
  readonly #feeds = new Map<string, Feed>();
  #offers: Offer[] = [];
  /** Offers of the running statement. */
  #sent: Offer[] = [];
  /** Until when organizations count as wanted, in milliseconds of the monotonic clock. */
  readonly #wanted = new Map<string, number>();
  #isAway = false;
  #writeAtMs = 0;
  #readAtMs = 0;
  #wantAtMs = 0;
  #expireAtMs = 0;

  /** @param wake called when a round is due earlier than {@link due_in_ms} said */
  constructor(
    options: Omit<ExchangeOptions, keyof typeof INTERVALS> & Partial<ExchangeOptions>,
    wake: () => void,
    clock: Pick<Clock, 'wallMs'> = systemClock,
  ) {
    this.#clock = clock;
    this.#options = { ...INTERVALS, ...options };
    this.#wake = wake;
  }

  /** Begins to send an organization's events to a thread. Does nothing if FEEDS other organizations have readers. */
  follow(orgId: string, follower: LiveFollower): void {
    let feed = this.#feeds.get(orgId);
    if (feed === undefined) {
      if (this.#feeds.size >= FEEDS) return;
      feed = {
        ring: null,
        from_id: 0,
        reads: 0,
        lost_id: 0,
        told_id: 0,
        followers: new Set(),
        pages: [],
        is_wanted: false,
      };
      this.#feeds.set(orgId, feed);
      this.#wake();
    }
    if (feed.followers.has(follower)) return;
    feed.followers.add(follower);
    // A thread that follows again after a loss may have missed something.
    if (feed.ring !== null) follower({ org_id: orgId, publications: [], ahead_id: feed.told_id });
  }

  /** Stops sending an organization's events to a thread. @param orgId null: those of all organizations */
  unfollow(orgId: string | null, follower: LiveFollower): void {
    for (const [id, feed] of orgId === null ? [...this.#feeds] : this.#find(orgId)) {
      feed.followers.delete(follower);
      if (feed.followers.size > 0) continue;
      this.#feeds.delete(id);
      for (const { settle } of feed.pages) settle(new Error('the last follower has left'));
    }
  }

  /**
   * Reads the events after an id.
   * @throws Error if the organization has no followers or its last one leaves, or if the database cannot be reached
   */
  replay(orgId: string, request: ReplayRequest): Promise<ReplayReply> {
    const feed = this.#feeds.get(orgId);
    if (feed === undefined) return Promise.reject(new Error('the organization has no followers'));
    return new Promise((resolve, reject) => {
      const settle = (reply: ReplayReply | Error) =>
        reply instanceof Error ? reject(reply) : resolve(reply);
      feed.pages.push({ request, was_read: false, first_read: feed.reads + 1, settle });
      this.#answerPages(feed);
      if (feed.pages.length === 0) return;
      this.#readAtMs = 0;
      this.#wake();
    });
  }

  /**
   * Stores events for the readers of all boxes, or drops them if no box has any.
   * @throws Error if the events were refused, or if it is unknown whether they are stored
   */
  offer(batch: LiveBatch): Promise<void> {
    if (this.#isAway) return Promise.reject(new Error('the database is away'));
    if (this.#offers.length >= OFFERS) return Promise.reject(new Error('too many events wait'));
    return new Promise((resolve, reject) => {
      this.#offers.push({ batch, settle: (error) => (error === null ? resolve() : reject(error)) });
      if (this.#offers.length === 1) this.#wake();
    });
  }

  /** See `PulseWork`. */
  get due_in_ms(): number {
    const now = performance.now();
    let at = Number.POSITIVE_INFINITY;
    if (this.#offers.length > 0) at = Math.min(at, this.#writeAtMs);
    if (this.#feeds.size > 0) at = Math.min(at, this.#readAtMs, this.#wantAtMs);
    for (const feed of this.#feeds.values()) if (feed.ring === null) at = 0;
    return Math.max(0, at - now);
  }

  /** Writes offered events, reports which organizations have readers, reads new events, and removes expired ones, if due. */
  async round(session: LiveSession): Promise<void> {
    this.#isAway = false;
    await this.#write(session);
    await this.#want(session);
    await this.#read(session);
    await this.#expire(session);
  }

  /** Handles a failed round: refuses everything that waits for the database. */
  fail(error: Error): void {
    this.#isAway = true;
    this.#wanted.clear();
    for (const { settle } of [...this.#sent, ...this.#offers]) settle(error);
    this.#sent = [];
    this.#offers = [];
    for (const feed of this.#feeds.values()) {
      // After a crash, the database does not know any more that the organization has readers.
      feed.is_wanted = false;
      for (const { settle } of feed.pages) settle(error);
      feed.pages = [];
    }
  }

  async #write(session: LiveSession): Promise<void> {
    const now = performance.now();
    if (this.#offers.length === 0 || now < this.#writeAtMs) return;
    this.#writeAtMs = now + this.#options.write_ms;
    this.#sent = this.#takeOffers();
    const unknown = this.#sent
      .map(({ batch }) => batch.org_id)
      .filter((org) => !((this.#wanted.get(org) ?? 0) > now));
    if (unknown.length > 0)
      for (const org of await session.findWanted(unknown)) this.#wanted.set(org, now + WANTED_MS);
    const wanted = this.#sent.filter(({ batch }) => (this.#wanted.get(batch.org_id) ?? 0) > now);
    if (wanted.length > 0) {
      await session.write(wanted.map(({ batch }) => batch));
      // Read at once, so that readers on this box get the events.
      this.#readAtMs = 0;
    }
    for (const { settle } of this.#sent) settle(null);
    this.#sent = [];
  }

  /** Takes offers for one statement: at most one for each organization, so that its events stay in order. */
  #takeOffers(): Offer[] {
    const taken = new Map<string, Offer>();
    this.#offers = this.#offers.filter((offer) => {
      const { org_id } = offer.batch;
      if (taken.size >= STATEMENT_OFFERS || taken.has(org_id)) return true;
      taken.set(org_id, offer);
      return false;
    });
    return [...taken.values()];
  }

  async #want(session: LiveSession): Promise<void> {
    const now = performance.now();
    const isDue = now >= this.#wantAtMs;
    const orgs = [...this.#feeds].filter(([, feed]) => isDue || !feed.is_wanted).map(([org]) => org);
    if (isDue) this.#wantAtMs = now + this.#options.want_ms;
    if (isDue) for (const [org, until] of this.#wanted) if (until <= now) this.#wanted.delete(org);
    if (orgs.length === 0) return;
    for (const head of await session.want(orgs)) {
      const feed = this.#feeds.get(head.org_id);
      if (feed === undefined) continue;
      feed.is_wanted = true;
      this.#wanted.set(head.org_id, now + WANTED_MS);
      if (feed.ring === null && feed.told_id === 0) begin(feed, head);
      else if (head.last_id < feed.told_id) this.#beginAgain(feed, head);
    }
  }

  /** Handles a database that was restored from a backup: it assigns ids again that readers already have. */
  #beginAgain(feed: Feed, { org_id, last_id, lost_id }: LiveHead): void {
    feed.lost_id = lost_id;
    feed.told_id = last_id;
    feed.ring = this.#makeRing(last_id);
    for (const follower of feed.followers) follower({ org_id, publications: [], ahead_id: last_id });
  }

  async #read(session: LiveSession): Promise<void> {
    const isDue = performance.now() >= this.#readAtMs;
    if (isDue) this.#readAtMs = performance.now() + this.#options.poll_ms;
    let behind = new Map(
      [...this.#feeds].filter(([, feed]) => feed.is_wanted && (isDue || feed.ring === null)),
    );
    while (behind.size > 0) {
      const after = new Map([...behind].map(([org, feed]) => [org, feed.ring?.last_id ?? feed.from_id]));
      for (const feed of behind.values()) feed.reads++;
      const next = new Map<string, Feed>();
      const deltas = new Map((await session.read(after, READ_EVENTS)).map((delta) => [delta.org_id, delta]));
      for (const [org, feed] of behind) {
        feed.ring ??= this.#makeRing(feed.from_id);
        const delta = deltas.get(org);
        if (delta !== undefined && this.#take(feed, delta)) next.set(org, feed);
        else this.#answerPages(feed);
      }
      behind = next;
    }
  }

  /** Adds what was read to the feed's ring, and publishes what is new. @returns whether more can be read at once */
  #take(feed: Feed, { org_id, last_id, lost_id, stored }: LiveDelta): boolean {
    feed.lost_id = lost_id;
    if (lost_id > feed.ring!.last_id) feed.ring = this.#makeRing(lost_id);
    const ring = feed.ring!;
    const publications: LivePublication[] = [];
    for (const entry of stored) {
      const previous_id = ring.last_id;
      if ('forget' in entry) {
        ring.forget((event) => isMeant(event, entry.forget));
        ring.advance(entry.id);
        continue;
      }
      // The event's name is valid, because the database has only names that hubs have sent.
      const event = { ...entry.event, id: entry.id } as NumberedEvent;
      ring.push(event);
      if (entry.id > feed.told_id) publications.push({ ...event, previous_id });
    }
    const isMore = stored.length >= READ_EVENTS;
    if (!isMore && last_id > ring.last_id) ring.advance(last_id);
    if (ring.last_id > feed.told_id) {
      feed.told_id = ring.last_id;
      for (const follower of feed.followers) follower({ org_id, publications, ahead_id: ring.last_id });
    }
    return isMore;
  }

  /**
   * Answers the pages that can be answered. The other pages wait: for events that are older than the ring, or for the
   * next read, because their readers have seen events on another box that this box has not read.
   */
  #answerPages(feed: Feed): void {
    const { ring, pages } = feed;
    if (ring === null || ring.last_id < feed.told_id) return;
    const { max_age_ms } = this.#options;
    if (max_age_ms !== null) ring.expire(this.#clock.wallMs() - max_age_ms);
    const older: Page[] = [];
    const newer: Page[] = [];
    for (const page of pages) {
      const { after_id, project_id, limit } = page.request;
      // Another box may have shown events that this box has not read yet.
      if (after_id !== null && after_id > ring.last_id && feed.reads < page.first_read) newer.push(page);
      else if (
        after_id !== null &&
        after_id < ring.lost_id &&
        ring.lost_id > feed.lost_id &&
        !page.was_read
      ) {
        page.was_read = true;
        older.push(page);
      } else page.settle(ring.read(after_id, project_id, limit));
    }
    feed.pages = [...older, ...newer];
    if (older.length === 0) return;
    feed.from_id = Math.min(...older.map(({ request }) => Math.max(request.after_id!, feed.lost_id)));
    feed.ring = null;
  }

  async #expire(session: LiveSession): Promise<void> {
    const { max_age_ms } = this.#options;
    if (max_age_ms === null || performance.now() < this.#expireAtMs) return;
    this.#expireAtMs = performance.now() + EXPIRE_MS;
    await session.expire(this.#clock.wallMs() - max_age_ms);
  }

  #makeRing(after: number): EventRing {
    const ring = new EventRing(this.#options.ring_events, this.#options.ring_bytes);
    ring.beginAfter(after);
    return ring;
  }

  #find(orgId: string): [string, Feed][] {
    const feed = this.#feeds.get(orgId);
    return feed === undefined ? [] : [[orgId, feed]];
  }
}

/** Begins a new feed at the earliest place at which its readers continue. */
function begin(feed: Feed, { last_id, lost_id }: LiveHead): void {
  feed.lost_id = lost_id;
  feed.told_id = last_id;
  feed.from_id = last_id;
  for (const page of feed.pages) {
    const { after_id } = page.request;
    page.was_read = true;
    // A reader whose place is lost gets all events that are left.
    if (after_id !== null)
      feed.from_id = Math.min(feed.from_id, after_id > last_id ? lost_id : Math.max(after_id, lost_id));
  }
}

function isMeant(event: NumberedEvent, { run_id, project_id, before_ms }: LiveForget): boolean {
  return (
    (run_id === null || event.run_id === run_id) &&
    (project_id === null || event.project_id === project_id) &&
    (before_ms === 0 || event.at_ms < before_ms)
  );
}
