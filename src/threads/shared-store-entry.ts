/**
 * Entry of the store thread, which runs when several boxes share a PostgreSQL database: it holds the connection, sends
 * the commits of all threads of the box, and updates the view with the commits of other boxes. Only this thread loads
 * the driver. Runs on its own thread, to which any thread may send commits.
 */
import type { MessagePort } from 'node:worker_threads';
import { LIVE_RING } from '../../actors/live-hub/behaviour.ts';
import { LiveExchange, type LiveFollower } from '../../actors/live-hub/exchange.ts';
import type { LiveQuestion, LiveTold } from '../../actors/live-hub/protocol.ts';
import { divideLimit } from '../../actors/rate-bucket/client.ts';
import { RateExchange } from '../../actors/rate-bucket/exchange.ts';
import { RateShares } from '../../actors/rate-bucket/shares.ts';
import { RateTable } from '../../actors/rate-bucket/table.ts';
import { UserEpochs } from '../api/user-epochs.ts';
import { Revocations } from '../auth/revocations.ts';
import { openDataKey } from '../std/data-key.ts';
import { runOwnThread } from '../std/own-thread.ts';
import { LmdbView } from '../storage/lmdb/view.ts';
import { PostgresTruth } from '../storage/postgres/truth.ts';
import { ChangeNotices } from '../storage/shared/change-notices.ts';
import { Follower } from '../storage/shared/follower.ts';
import { Pulse } from '../storage/shared/pulse.ts';
import { RunsSender, type RunsWatcher } from '../storage/shared/runs-sender.ts';
import { type LostActor, readLost } from '../storage/shared/runs-store.ts';
import { OWNERS } from '../storage/shared/runs-truth.ts';
import { SeatState } from '../storage/shared/seat.ts';
import {
  packChanged,
  packRuns,
  type RunsQuestion,
  type StoreAnswer,
  type StoreApplied,
  type StoreFollowing,
  type StoreGreeting,
  type StoreQuestion,
  type StoreTold,
  toStoreFailure,
  unpackProposal,
  unpackRuns,
} from '../storage/shared/store-protocol.ts';
import type { StoredRow, Verdict } from '../storage/shared/truth.ts';
import { WatchedView } from '../storage/shared/watched-view.ts';
import type { SharedStoreTask, SharedStoreTold } from './shared-store.ts';

const DAY_MS = 86_400_000;
/** Interval at which the age of the view is written to shared memory. */
const NOTE_MS = 100;
/** Tables on which no credential or membership depends. Their rows change often. */
const CONTENT =
  /^(?:journal|snapshots|owners|rows:(?:(?:pattern|finding|trace|run|audit)\w*|list_counts|duties|api_key_(?:uses|requests)))$/;
/** Tables of which an actor holds an index in memory. */
const INDEXED = /^rows:(?:pattern|finding)/;

/** Runs the thread until it is told to end. */
async function storeThread(task: SharedStoreTask): Promise<void> {
  const { told } = task;
  const tell = (message: SharedStoreTold) => told.postMessage(message);
  const store = new StoreThread(task, tell);
  const ended = new Promise<void>((resolve) => told.once('message', () => resolve()));
  try {
    await store.open();
    await ended;
  } catch (thrown) {
    tell({ event: 'refused', ...toStoreFailure(thrown) });
  } finally {
    await store.close();
    told.close();
  }
}

class StoreThread {
  readonly #task: SharedStoreTask;
  readonly #tell: (told: SharedStoreTold) => void;
  readonly #state: SeatState;
  readonly #ports = new Map<MessagePort, StoreFollowing>();
  readonly #changes: ChangeNotices<MessagePort>;
  #view: WatchedView | null = null;
  #follower: Follower | null = null;
  #pulse: Pulse | null = null;
  #live: LiveExchange | null = null;
  #runs: RunsSender | null = null;
  #noting: NodeJS.Timeout | undefined;
  #isAway = false;

  constructor(task: SharedStoreTask, tell: (told: SharedStoreTold) => void) {
    this.#task = task;
    this.#tell = tell;
    this.#state = new SeatState(task.state);
    this.#changes = new ChangeNotices(this.#state);
  }

  async open(): Promise<void> {
    const { address, path, data_key, live_event_days } = this.#task;
    const truth = await PostgresTruth.connect(address, openDataKey(data_key));
    const view = this.#watch(await LmdbView.open(path, truth.identity, data_key));
    this.#view = view;
    this.#follower = await Follower.start(truth, view);
    const max_age_ms = live_event_days === null ? null : live_event_days * DAY_MS;
    const live = new LiveExchange({ ...LIVE_RING, max_age_ms }, () => this.#pulse?.wake());
    this.#live = live;
    const rates = this.#openRates();
    this.#pulse = await Pulse.start(truth, live, (session, boxes) => {
      this.#state.boxes = boxes.live.size;
      return rates.round(session, boxes.box, boxes.live);
    });
    this.#runs = await RunsSender.start(truth.runs, this.#follower, {}, this.#watchRuns());
    this.#note();
    this.#noting = setInterval(() => this.#note(), NOTE_MS);
    process.on('workerMessage', (greeting: StoreGreeting) => {
      if (greeting.understudy_store === truth.identity) this.#greet(greeting);
      else greeting.port?.close();
    });
    this.#tell({ event: 'ready', identity: truth.identity });
  }

  #openRates(): RateExchange {
    const { rate_limit, rate_table, rate_shares } = this.#task;
    const memory = { table: new RateTable(rate_table), shares: new RateShares(rate_shares) };
    return new RateExchange(
      memory,
      divideLimit(rate_limit, () => this.#state.boxes),
    );
  }

  async close(): Promise<void> {
    this.#state.thread = null;
    clearInterval(this.#noting);
    await this.#runs?.close();
    await Promise.all([this.#pulse?.close(), this.#follower?.close()]);
    for (const port of this.#ports.keys()) port.close();
    await this.#view?.close();
  }

  #watch(view: LmdbView): WatchedView {
    const revocations = new Revocations(this.#task.revocations);
    const users = new UserEpochs(this.#task.user_epochs);
    const forget = () => {
      revocations.announceAll();
      users.bumpAll();
    };
    return new WatchedView(view, {
      onPosition: (position) => {
        this.#state.position = position;
      },
      onLoaded: () => {
        forget();
        this.#spread('changes', { changed: null, changes: this.#changes.next() });
        this.#spreadLosses(null);
      },
      onChanged: (rows: readonly StoredRow[]) => {
        if (rows.some(({ table }) => !CONTENT.test(table))) forget();
        const indexed = rows.filter(({ table }) => INDEXED.test(table));
        if (indexed.length > 0)
          this.#spread('changes', { changed: packChanged(indexed), changes: this.#changes.next() });
        const owners = rows.filter(({ table }) => table === OWNERS);
        if (owners.length > 0) this.#spreadLosses(owners.map(readLost));
      },
    });
  }

  /** Sends a message to the threads that follow messages of this kind. */
  #spread(following: StoreFollowing, told: StoreTold): void {
    for (const [port, follows] of this.#ports) if (follows === following) port.postMessage(told);
  }

  #spreadLosses(lost: readonly LostActor[] | null): void {
    const notices = this.#state.notices + 1;
    this.#spread('losses', { lost: lost === null ? null : packRuns(lost), notices });
    this.#state.notices = notices;
  }

  #watchRuns(): RunsWatcher {
    return {
      onTakeOvers: (count) => this.#state.count('take_overs', count),
      onLost: (count) => this.#state.count('lost_commits', count),
      onHeld: (count) => this.#state.count('held_takings', count),
      onTick: (commits) => {
        this.#state.count('run_ticks');
        this.#state.count('run_commits', commits);
      },
    };
  }

  #note(): void {
    const follower = this.#follower!;
    this.#state.position = follower.position;
    this.#state.noteStale(follower.stale_ms);
    const { failure } = follower;
    if ((failure !== null) === this.#isAway) return;
    this.#isAway = failure !== null;
    this.#tell(failure === null ? { event: 'back' } : { event: 'away', ...toStoreFailure(failure) });
  }

  #greet({ port, follows, is_again }: StoreGreeting): void {
    this.#ports.set(port, follows);
    if (follows === 'changes') this.#changes.add(port, is_again);
    const answer = (told: StoreAnswer) => port.postMessage(told);
    const follower = (told: LiveTold) => port.postMessage({ told } satisfies StoreTold);
    port.on('close', () => {
      this.#ports.delete(port);
      this.#changes.remove(port);
      this.#live!.unfollow(null, follower);
    });
    port.on('message', (question: StoreQuestion | StoreApplied) => {
      if ('applied' in question) return this.#changes.note(port, question.applied);
      this.#answer(question, follower).then(answer, (thrown: unknown) =>
        answer({ id: question.id, failure: toStoreFailure(thrown) }),
      );
    });
  }

  async #answer(question: StoreQuestion, follower: LiveFollower): Promise<StoreAnswer> {
    const { id } = question;
    if ('live' in question)
      return { id, live: await this.#answerLive(question.live as LiveQuestion, follower) };
    if ('reach' in question) return { id, is_reached: await this.#reach(question.reach, question.within_ms) };
    if ('runs' in question) return { id, runs: packRuns(await this.#askRuns(question.runs)) };
    return { id, verdict: await this.#commit(question.commit) };
  }

  /** Waits until the view and the indexes include the position. @returns false if they do not in time */
  async #reach(position: number, within_ms: number): Promise<boolean> {
    const untilMs = performance.now() + within_ms;
    if (!(await this.#follower!.reach(position, within_ms))) return false;
    return this.#changes.whenApplied(untilMs - performance.now());
  }

  async #answerLive(question: LiveQuestion, follower: LiveFollower): Promise<unknown> {
    const live = this.#live!;
    if ('offer' in question) return live.offer(question.offer);
    if ('follow' in question) {
      if (question.is_on) live.follow(question.follow, follower);
      else live.unfollow(question.follow, follower);
      return null;
    }
    live.follow(question.org_id, follower);
    return live.replay(question.org_id, question.replay);
  }

  #askRuns(bytes: Uint8Array): Promise<unknown> {
    const question = unpackRuns(bytes) as RunsQuestion;
    const runs = this.#runs!;
    switch (question.op) {
      case 'take':
        return runs.take(question.actor);
      case 'commit':
        return runs.commit(question.commits);
      case 'rows':
        return runs.readRows(question.table, question.keys);
      case 'range':
        return runs.readRange(question.range, question.limit, question.reverse);
      case 'counts':
        return runs.sumCounts(question.range);
    }
  }

  async #commit(bytes: Uint8Array): Promise<Verdict> {
    const proposal = unpackProposal(bytes);
    const forget = this.#view!.noteOwn(proposal);
    try {
      const verdict = await this.#follower!.commit(proposal);
      if (verdict === null) this.#state.count('conflicts');
      return verdict;
    } finally {
      forget();
    }
  }
}

runOwnThread(storeThread);
