/**
 * The messages between the service and the exporting capture reader over their channel. Types.
 */
import type { ExportProgress } from '../otel/export-progress.ts';
import type { SpanExportOptions } from '../otel/span-export.ts';

export interface OtelExportOptions extends SpanExportOptions {
  /** Absolute path of the live file. */
  db: string;
  /** The key of the files; null: they are not encrypted. */
  data_key: Uint8Array | null;
}

export type ToOtelExport =
  | { type: 'open'; options: OtelExportOptions }
  /** Exports everything stored by now, and ends. */
  | { type: 'finish' };

export interface FromOtelExport {
  progress: ExportProgress;
}
