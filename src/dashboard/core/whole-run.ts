/**
 * Reads one run by any of its ids: the conversation, if the run was captured and the reader may see captures, and the
 * steps, if they were reported. Each call continues where the last call ended. Browser.
 */
import { ApiError } from './api.ts';
import { ConversationReader, type ReadConversation } from './conversation-reader.ts';
import { type ListedRun, type RunScope, showReported } from './listed-runs.ts';
import { type ReadRun, RunReader } from './run-reader.ts';

export interface WholeRun {
  /** The run's row in the list. */
  run: ListedRun;
  /**
   * null: the run was not captured, the reader may not see captures, or only the report to the organization is shown
   * (scope `organization`).
   */
  conversation: ReadConversation | null;
  /** null: the run was not reported, or was reported to an organization to which the reader does not belong. */
  reported: ReadRun | null;
}

interface ReportedPlace {
  org_id: string;
  run_id: string;
}

export class WholeRunReader {
  readonly #scope: RunScope;
  readonly #mayRead: boolean;
  readonly #place: ReportedPlace;
  readonly #captured: ConversationReader;
  #reported: { place: ReportedPlace; reader: RunReader } | null = null;

  /** @param mayReadCaptures whether the reader is an operator */
  constructor(scope: RunScope, mayReadCaptures: boolean, place: ReportedPlace) {
    this.#scope = scope;
    this.#mayRead = mayReadCaptures;
    this.#place = place;
    this.#captured = new ConversationReader(place.run_id);
  }

  /** Makes the next reading include more turns. */
  wantTurns(): void {
    this.#captured.want();
  }

  wantSteps(): void {
    this.#reported?.reader.want();
  }

  /** The next reading reads all steps again, because events were lost. */
  forgetSteps(): void {
    this.#reported?.reader.forget();
  }

  /**
   * Reads the run's conversation and its report.
   * @throws ApiError; 404 if both are missing or hidden from the reader
   */
  async read(signal: AbortSignal): Promise<WholeRun> {
    if (this.#scope === 'organization') {
      const reported = await orNull(this.#readReported(this.#place, signal));
      if (reported !== null) return showWhole(this.#place, null, reported);
    }
    const known = this.#mayRead ? await orNull(this.#captured.read(signal)) : null;
    const place = known === null ? this.#place : known.run.reported;
    // The report is not read again if it was not found above.
    const isLookedFor = known !== null || this.#scope === 'captures';
    const reported = place === null || !isLookedFor ? null : await orNull(this.#readReported(place, signal));
    if (known === null && reported === null) throw new ApiError(404, 'Not found');
    return showWhole(place, known, reported);
  }

  #readReported(place: ReportedPlace, signal: AbortSignal): Promise<ReadRun> {
    const before = this.#reported?.place;
    if (before?.run_id !== place.run_id || before.org_id !== place.org_id)
      this.#reported = { place, reader: new RunReader(place.org_id, place.run_id) };
    return this.#reported!.reader.read(signal);
  }
}

function showWhole(
  place: ReportedPlace | null,
  known: ReadConversation | null,
  reported: ReadRun | null,
): WholeRun {
  const conversation = known?.run.is_captured === true ? known : null;
  const fromReport = reported === null ? null : showReported(place!.org_id, reported.run);
  if (conversation === null) return { run: fromReport ?? known!.run, conversation, reported };
  // While a run is running, the report has newer totals than the answer with the conversation.
  const run = { ...conversation.run, reported: fromReport?.reported ?? conversation.run.reported };
  return { run, conversation, reported };
}

/** Returns null for data that does not exist or that the reader may not see. */
function orNull<Read>(read: Promise<Read>): Promise<Read | null> {
  return read.catch((thrown: unknown) => {
    if (thrown instanceof ApiError && thrown.status === 404) return null;
    throw thrown;
  });
}
