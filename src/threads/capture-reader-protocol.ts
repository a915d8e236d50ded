/** What the service and the capture reader say to each other over the channel. Types. */
import type { CaptureAnswer, CaptureQuestion } from '../domain/captured-run.ts';
import type { Prices } from '../domain/price.ts';

export interface CaptureReaderOptions {
  /** Absolute path of the live file. */
  db: string;
  /** Under which the files are; null: under none. */
  data_key: Uint8Array | null;
  prices: Prices;
  /** Absolute path of the student's directory; null: there is none to ask. */
  student: string | null;
  /** Of the program: what another one has kept is not read. */
  version: string;
}

/** Of one life of it. */
export interface CaptureReaderStart extends CaptureReaderOptions {
  /** Earlier ones ended by themselves: what they kept may be why. */
  is_suspect: boolean;
  /** Reads what nobody has asked for yet. false: an earlier one ended by itself, perhaps over a page that it looked at so. */
  reads_ahead: boolean;
}

export type ToCaptureReader =
  | { type: 'open'; options: CaptureReaderStart }
  | { type: 'ask'; id: number; question: CaptureQuestion };

export interface FromCaptureReader {
  id: number;
  answer: CaptureAnswer;
}
