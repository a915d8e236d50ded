/**
 * The messages between the main thread and the student's thread. Types.
 */
import type { MessagePort } from 'node:worker_threads';
import type { Prices } from '../domain/price.ts';
import type { LedgerCopy } from '../student/day-ledger.ts';
import type { DriftCopy } from '../student/model/drift-watch.ts';
import type { StudentFacts, WatchReport } from '../student/serving/protocol.ts';
import type { ServedRunsCopy } from '../student/serving/served-runs.ts';

/** The input of a student's thread at its start; the port is transferred. */
export interface StudentTask {
  directory: string;
  mode: 'on' | 'shadow';
  /** Secret: the key for the service of a student of kind `http`. */
  key: string;
  prices: Prices;
  /** Share of covered steps that is audited. */
  audit_share: number;
  /** Whether a run stays with the upstream once the upstream has served one of its steps. */
  sticky: boolean;
  /** Where the drift watch is saved; null: in memory only. */
  watch_path: string | null;
  /** Where the ledger is saved; null: in memory only. */
  ledger_path: string | null;
  log_level: string;
  control: MessagePort;
}

/** The main thread's calls to the student's thread, through comlink. */
export interface StudentControl {
  /**
   * Loads the student. It must be called first, and only once.
   * @throws Error with a one-line message if the student cannot be loaded
   */
  open(): Promise<StudentFacts>;
  /** Connects the port of a server. */
  connect(port: MessagePort): void;
  /** Copies for the next student which runs were served, and by which side. */
  copyRuns(): ServedRunsCopy;
  restoreRuns(copy: ServedRunsCopy): void;
  /** Copies the results of comparisons, for the next student. */
  copyWatch(): DriftCopy;
  /** Copies the counts of served steps and savings, for the next student. */
  copyLedger(): LedgerCopy;
  takeLedgerOver(copy: LedgerCopy): void;
  takeWatchOver(copy: DriftCopy): void;
  /** Returns the watch's report. Writes the ledger's last changes first. */
  describeWatch(): Promise<WatchReport>;
  /**
   * Reads the operator's orders.
   * @throws Error with a one-line message; the earlier orders stay in force
   */
  obey(): Promise<void>;
  /**
   * Records that another thread has taken over. From now on, this thread writes nothing to disk.
   */
  retire(): void;
  ping(): void;
  stop(): Promise<void>;
}
