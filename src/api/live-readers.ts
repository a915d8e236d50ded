/**
 * The readers of the live stream on this server thread: one subscription for each organization with readers, each event
 * encoded once and written to all of them that may see it, and one timer for all heartbeats. Server threads. A reader
 * gets no event twice, and misses none that the hub still has, even if messages of the hub are lost. Each publication
 * names the previous one; if that publication did not arrive, the thread asks the hub for the events in between. If the
 * hub no longer has them, the reader gets a `reset`. A new or returning reader gets pages from the hub at the pace of
 * its socket, until it has caught up with the publications. At the first event after a revocation in its organization,
 * a reader whose credential may expire returns to pages, and gets no page before the credential is checked again.
 */

import type { LiveSource, NumberedEvent, ReplayReply, ReplayRequest } from '../../actors/live-hub/client.ts';
import type { Revocations } from '../auth/revocations.ts';
import type { EventSink, EventStream } from '../contract/handler.ts';
import { CatalogueError } from '../errors.ts';
import { encodeEvent, encodeOpening, HEARTBEAT } from '../http/event-stream.ts';

/** Maximum number of readers of the live stream on one server thread. One more is refused. */
const LIVE_READERS = 20_000;

export interface LiveReadersOptions {
  heartbeat_ms: number;
  /** How long a reader should wait before it reconnects. */
  retry_ms: number;
  /** Delay before the next request to a hub that did not answer. */
  ask_again_ms: number;
  /** Events in one page of the hub. */
  page_events: number;
  max_readers: number;
  /** Projects of an organization whose events are not sent any more. */
  hiddenIn(org_id: string): ReadonlySet<string>;
}

const NOTHING_HIDDEN: ReadonlySet<string> = new Set();

const DEFAULT_LIVE_OPTIONS: LiveReadersOptions = {
  heartbeat_ms: 15_000,
  retry_ms: 3_000,
  ask_again_ms: 1_000,
  page_events: 100,
  max_readers: LIVE_READERS,
  hiddenIn: () => NOTHING_HIDDEN,
};

/** Whether the credential of a stream is still valid; never rejects. */
export type MayStay = () => Promise<boolean>;

/** The scope that a reader may see. */
export interface LiveScope {
  org_id: string;
  /** null: every project. */
  project_id: string | null;
}

/** A reader's credential is checked after this many heartbeats. */
const HEARTBEATS_A_CHECK = 2;
/**
 * Heartbeats are spread over this many ticks, because ten thousand writes at once would delay every other request.
 */
const HEARTBEAT_TICKS = 60;
/**
 * Number of pages without progress after which a reader goes live, even if the hub has published
 * events that it does not return.
 */
const MAX_STANDING_PAGES = 5;

interface Reader {
  readonly sink: EventSink;
  readonly project_id: string | null;
  /** Checks the credential; null: the credential does not expire. */
  readonly mayStay: MayStay | null;
  heartbeats: number;
  /** The organization's revocation count when the credential was last found valid; null: not checked yet. */
  epoch: number | null;
  is_opened: boolean;
  /** The reader has everything up to this id. */
  cursor: number;
  /** Whether the reader gets publications. Until then it reads pages. */
  is_live: boolean;
  is_gone: boolean;
}

/** The readers of one organization. */
interface Audience {
  readonly org_id: string;
  readonly readers: Set<Reader>;
  /** Last id sent to the live readers; null before the first publication or page. */
  told_id: number | null;
  /** Last published id; above `told_id` while missed publications are being read. */
  published_id: number;
  is_reading_gap: boolean;
  unsubscribe: () => void;
}

export class LiveReaders {
  readonly #hub: LiveSource;
  readonly #revocations: Pick<Revocations, 'epochOf'>;
  readonly #options: LiveReadersOptions;
  readonly #audiences = new Map<string, Audience>();
  /** Readers by the tick at which their heartbeat is due. */
  readonly #wheel: Set<Reader>[] = Array.from({ length: HEARTBEAT_TICKS }, () => new Set<Reader>());
  #tick = 0;
  #joined = 0;
  #size = 0;
  #timer: NodeJS.Timeout | null = null;
  #isClosed = false;

  constructor(
    hub: LiveSource,
    revocations: Pick<Revocations, 'epochOf'>,
    options: Partial<LiveReadersOptions> = {},
  ) {
    this.#hub = hub;
    this.#revocations = revocations;
    this.#options = { ...DEFAULT_LIVE_OPTIONS, ...options };
  }

  /** Number of present readers. */
  get size(): number {
    return this.#size;
  }

  /** Number of organizations that have readers. */
  get audiences(): number {
    return this.#audiences.size;
  }

  /**
   * Makes the stream of a scope. Nothing happens before the stream is opened.
   * @param afterId the last id that the reader has: the stream begins with the later events, or with a
   * `reset` if the hub no longer has them; null: it begins with the next event
   * @param mayStay called before the first page, at every second heartbeat, and after a revocation before the
   * next event, because streams outlive credentials; null: the credential does not expire
   * @throws {CatalogueError} `unavailable` if there are too many readers
   */
  stream(scope: LiveScope, afterId: number | null, mayStay: MayStay | null = null): EventStream {
    if (this.#size >= this.#options.max_readers)
      throw new CatalogueError('unavailable', 'Too many readers of the live stream');
    return { open: (sink) => this.#join(sink, scope, afterId, mayStay) };
  }

  /** Ends every stream, including those that are opened later. */
  close(): void {
    this.#isClosed = true;
    for (const audience of [...this.#audiences.values()])
      for (const reader of [...audience.readers]) reader.sink.close();
  }

  #join(
    sink: EventSink,
    { org_id, project_id }: LiveScope,
    afterId: number | null,
    mayStay: MayStay | null,
  ): () => void {
    const reader: Reader = {
      sink,
      project_id,
      mayStay,
      heartbeats: 0,
      epoch: null,
      is_opened: false,
      cursor: afterId ?? 0,
      is_live: false,
      is_gone: false,
    };
    // Checked again, because several streams may have been created before they are opened.
    if (this.#isClosed || this.#size >= this.#options.max_readers) {
      sink.close();
      return () => {};
    }
    const audience = this.#audienceOf(org_id);
    audience.readers.add(reader);
    const slot = this.#wheel[this.#joined++ % HEARTBEAT_TICKS]!;
    slot.add(reader);
    this.#size++;
    this.#timer ??= this.#startTimer();
    void this.#catchUp(audience, reader, afterId);
    return () => {
      if (reader.is_gone) return;
      reader.is_gone = true;
      slot.delete(reader);
      this.#size--;
      if (this.#size === 0) this.#stopTimer();
      audience.readers.delete(reader);
      if (audience.readers.size > 0) return;
      this.#audiences.delete(org_id);
      audience.unsubscribe();
    };
  }

  #audienceOf(orgId: string): Audience {
    const known = this.#audiences.get(orgId);
    if (known !== undefined) return known;
    const audience: Audience = {
      org_id: orgId,
      readers: new Set(),
      told_id: null,
      published_id: 0,
      is_reading_gap: false,
      unsubscribe: () => {},
    };
    this.#audiences.set(orgId, audience);
    audience.unsubscribe = this.#hub.subscribe(
      orgId,
      (publication) => {
        audience.published_id = Math.max(audience.published_id, publication.id);
        if (audience.is_reading_gap) return;
        if (audience.told_id !== null && audience.told_id !== publication.previous_id) {
          if (publication.id > audience.told_id) void this.#readGap(audience);
          return;
        }
        audience.told_id = publication.id;
        this.#tell(audience, publication);
      },
      (id) => {
        if (audience.told_id === null || id === audience.told_id) return;
        if (id < audience.told_id) {
          for (const reader of [...audience.readers]) reader.sink.close();
          return;
        }
        audience.published_id = Math.max(audience.published_id, id);
        if (!audience.is_reading_gap) void this.#readGap(audience);
      },
    );
    return audience;
  }

  /** Reads pages for one reader until it has caught up with the live ones. */
  async #catchUp(audience: Audience, reader: Reader, afterId: number | null): Promise<void> {
    const { retry_ms, page_events: limit } = this.#options;
    const { sink, project_id } = reader;
    let standing = 0;
    let after_id = afterId;
    while (!reader.is_gone) {
      const page = await this.#askPage(audience.org_id, { after_id, project_id, limit });
      if (reader.is_gone) return;
      if (page === null) {
        // The response head is sent without waiting for a hub that is restarting.
        if (!reader.is_opened) sink.write(Buffer.from(encodeOpening(retry_ms, null)));
        reader.is_opened = true;
        await this.#pause();
        continue;
      }
      if (!(await this.#stillHolds(audience, reader))) return sink.close();
      if (reader.is_gone) return;
      let text = '';
      if (page.is_reset) text += encodeEvent(page.events.length === 0 ? page.last_id : null, 'reset', '{}');
      const hidden = this.#options.hiddenIn(audience.org_id);
      for (const { id, name, data, project_id } of page.events)
        if (project_id === null || !hidden.has(project_id)) text += encodeEvent(id, name, data);
      const opening = reader.is_opened
        ? ''
        : encodeOpening(retry_ms, after_id === null ? page.last_id : null);
      reader.is_opened = true;
      if (opening !== '' || text !== '') sink.write(Buffer.from(opening + text));
      standing = after_id === page.last_id ? standing + 1 : 0;
      after_id = page.last_id;
      reader.cursor = page.last_id;
      audience.told_id ??= page.last_id;
      const heard = Math.max(audience.told_id, audience.published_id);
      // If the hub repeatedly returns no further events, the reader goes live, even if more was published.
      if (!page.more && (heard <= reader.cursor || standing >= MAX_STANDING_PAGES)) {
        reader.is_live = true;
        return;
      }
      await new Promise<void>((resolve) => sink.whenDrained(resolve));
    }
  }

  /**
   * Whether the reader's credential is valid. The credential is checked before the first page, and after a revocation in
   * the organization.
   */
  async #stillHolds({ org_id }: Audience, reader: Reader): Promise<boolean> {
    const epoch = this.#revocations.epochOf(org_id);
    if (reader.mayStay === null || reader.epoch === epoch) return true;
    if (!(await reader.mayStay())) return false;
    reader.epoch = epoch;
    return true;
  }

  /** Writes an event to every live reader that may see it and has not received it. */
  #tell(audience: Audience, { id, name, data, project_id }: NumberedEvent): void {
    const epoch = this.#revocations.epochOf(audience.org_id);
    const isHidden = project_id !== null && this.#options.hiddenIn(audience.org_id).has(project_id);
    let bytes: Uint8Array | null = null;
    for (const reader of audience.readers) {
      if (!reader.is_live || reader.cursor >= id) continue;
      if (reader.mayStay !== null && reader.epoch !== epoch) {
        reader.is_live = false;
        void this.#catchUp(audience, reader, reader.cursor);
        continue;
      }
      reader.cursor = id;
      if (isHidden || (reader.project_id !== null && reader.project_id !== project_id)) continue;
      bytes ??= Buffer.from(encodeEvent(id, name, data));
      reader.sink.write(bytes);
    }
  }

  /** Reads missed publications for all live readers at once. */
  async #readGap(audience: Audience): Promise<void> {
    audience.is_reading_gap = true;
    while (audience.readers.size > 0 && this.#audiences.get(audience.org_id) === audience) {
      const { page_events: limit } = this.#options;
      const page = await this.#askPage(audience.org_id, {
        after_id: audience.told_id,
        project_id: null,
        limit,
      });
      if (page === null) {
        await this.#pause();
        continue;
      }
      if (page.is_reset) tellReset(audience, page);
      for (const event of page.events) this.#tell(audience, event);
      audience.told_id = page.last_id;
      if (!page.more && audience.published_id <= page.last_id) break;
    }
    audience.is_reading_gap = false;
  }

  async #askPage(orgId: string, request: ReplayRequest): Promise<ReplayReply | null> {
    try {
      return await this.#hub.replay(orgId, request);
    } catch {
      return null;
    }
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, this.#options.ask_again_ms).unref());
  }

  #startTimer(): NodeJS.Timeout {
    const timer = setInterval(() => {
      this.#tick = (this.#tick + 1) % HEARTBEAT_TICKS;
      for (const reader of this.#wheel[this.#tick]!) {
        if (reader.sink.write(HEARTBEAT)) void checkReader(reader);
      }
    }, this.#options.heartbeat_ms / HEARTBEAT_TICKS);
    return timer.unref();
  }

  #stopTimer(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }
}

async function checkReader(reader: Reader): Promise<void> {
  if (reader.mayStay === null || ++reader.heartbeats % HEARTBEATS_A_CHECK !== 0) return;
  if (!(await reader.mayStay())) reader.sink.close();
}

/** Informs the live readers that miss some of the lost events. */
function tellReset({ readers }: Audience, { events, last_id }: ReplayReply): void {
  const lostId = events.length === 0 ? last_id : events[0]!.id - 1;
  const bytes = Buffer.from(encodeEvent(events.length === 0 ? last_id : null, 'reset', '{}'));
  for (const reader of readers) {
    if (!reader.is_live || reader.cursor >= lostId) continue;
    reader.cursor = lostId;
    reader.sink.write(bytes);
  }
}
