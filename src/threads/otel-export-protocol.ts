/** What the service and the exporting capture reader say to each other over the channel. Types. */
import type { ExportProgress } from '../otel/export-progress.ts';
import type { SpanExportOptions } from '../otel/span-export.ts';

export interface OtelExportOptions extends SpanExportOptions {
  /** Absolute path of the live file. */
  db: string;
  /** Encrypts the files; null: they are in the clear. */
  data_key: Uint8Array | null;
}

export type ToOtelExport =
  | { type: 'open'; options: OtelExportOptions }
  /** Exports what is stored by now, and ends. */
  | { type: 'finish' };

export interface FromOtelExport {
  progress: ExportProgress;
}
