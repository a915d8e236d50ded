/** What the main thread and the student's thread say to each other. Types. */
import type { MessagePort } from 'node:worker_threads';
import type { Prices } from '../domain/price.ts';
import type { LedgerCopy } from '../student/day-ledger.ts';
import type { DriftCopy } from '../student/model/drift-watch.ts';
import type { StudentFacts, WatchReport } from '../student/serving/protocol.ts';
import type { ServedRunsCopy } from '../student/serving/served-runs.ts';

/** What a student's thread is started with; the port is transferred. */
export interface StudentTask {
  directory: string;
  mode: 'on' | 'shadow';
  /** Secret: for the service of a student of kind `http`. */
  key: string;
  prices: Prices;
  /** Share of covered steps that is audited. */
  audit_share: number;
  /** A run stays with the upstream once it has served a step of it. */
  sticky: boolean;
  /** Where the watch over the student is kept; null: in memory alone. */
  watch_path: string | null;
  /** Where its ledger is kept; null: in memory alone. */
  ledger_path: string | null;
  log_level: string;
  control: MessagePort;
}

/** What the main thread may ask of the student's thread; called through comlink. */
export interface StudentControl {
  /**
   * Reads the student. It is called first, and once.
   * @throws Error of one line when no student can be loaded
   */
  open(): Promise<StudentFacts>;
  /** Takes the port of a server. */
  connect(port: MessagePort): void;
  /** Which runs were served, and by whom, for the next student. */
  copyRuns(): ServedRunsCopy;
  restoreRuns(copy: ServedRunsCopy): void;
  /** The results of comparisons, for the next student. */
  copyWatch(): DriftCopy;
  /** What was served and saved, for the next student. */
  copyLedger(): LedgerCopy;
  takeLedgerOver(copy: LedgerCopy): void;
  takeWatchOver(copy: DriftCopy): void;
  /** Writes the ledger's last changes first. */
  describeWatch(): Promise<WatchReport>;
  /**
   * Reads the operator's orders.
   * @throws Error of one line; earlier orders stay in force
   */
  obey(): Promise<void>;
  /** Another thread has taken over. Answers from here on change nothing on disk. */
  retire(): void;
  ping(): void;
  stop(): Promise<void>;
}
