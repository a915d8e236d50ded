/**
 * The messages between the service and the capture reader over their channel. Types.
 */
import type { CaptureAnswer, CaptureQuestion } from '../domain/captured-run.ts';
import type { RelegationWire } from '../domain/exchange.ts';
import type { Prices } from '../domain/price.ts';
import type { CaptureOwner } from '../domain/run-mark.ts';
import type { DatabasePaths } from '../storage/lmdb/stores.ts';
import type { GatheringPlace } from '../storage/offload/gathering-place.ts';

export interface CaptureReaderOptions {
  /**
   * Absolute path of the live file. With `read_from` there is no such file: only the saved list and figures are named
   * after the path.
   */
  db: string;
  /** The bucket whose captures are read, and the folder for them; null: captures of this machine are read. */
  read_from: GatheringPlace | null;
  /** The key of the files; null: they are not encrypted. */
  data_key: Uint8Array | null;
  /** null: none are configured, and the shipped table is used. */
  prices: Prices | null;
  /** Where verdicts about runs are stored. */
  databases: DatabasePaths;
  owner: CaptureOwner;
  /** Absolute path of the student's directory; null: there is no student. */
  student: string | null;
  /** Wires on which a student is used. */
  wires: readonly RelegationWire[];
  /** Version of the program. Data that another version saved is not read. */
  version: string;
}

/** Options of one life of the process. */
export interface CaptureReaderStart extends CaptureReaderOptions {
  /** Whether earlier processes ended unexpectedly, possibly because of what they saved. */
  is_suspect: boolean;
  /** Whether the process reads ahead of questions. false after an unexpected end, which reading ahead may have caused. */
  reads_ahead: boolean;
}

export type ToCaptureReader =
  | { type: 'open'; options: CaptureReaderStart }
  | { type: 'ask'; id: number; question: CaptureQuestion };

export type FromCaptureReader =
  | { type: 'answer'; id: number; answer: CaptureAnswer }
  /** Number of further runs in which a request repeats the previous answer differently. */
  | { type: 'differing'; runs: number };
