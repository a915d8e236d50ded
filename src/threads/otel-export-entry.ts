/**
 * Entry of the exporting capture reader: reads the capture database and sends its turns to a
 * collector. It is a separate process, because a damaged page of a mapped LMDB database can crash
 * its reader, and because a collector may be slow. Started and watched by `OtelExportProcess`.
 * Composition root of this process, which runs until its channel closes or the export has ended. It ignores signals
 * that are sent to a whole process group, because the parent handles them.
 */
import { constants, setPriority } from 'node:os';
import { SpanExport, type TurnSource } from '../otel/span-export.ts';
import { normalizeTurn } from '../providers/normal-turn.ts';
import { FollowedFiles } from '../storage/capture/followed-files.ts';
import type { FromOtelExport, OtelExportOptions, ToOtelExport } from './otel-export-protocol.ts';
import { QuietWatch } from './quiet-watch.ts';

let running: SpanExport | null = null;

function openTurns({ db, data_key }: OtelExportOptions): TurnSource {
  const files = new FollowedFiles(db, { data_key });
  return {
    refresh: () => files.refresh(),
    from: (from_id) => files.summaries({ from_id }),
    record: (id) => files.exchange(id) ?? null,
    turn: (id) => {
      const copy = files.copy(id);
      return copy === undefined ? null : normalizeTurn(copy);
    },
  };
}

function tell(message: FromOtelExport): void {
  // Ignores the error of sending to a parent that has ended.
  if (process.connected) process.send!(message, undefined, undefined, () => {});
}

function take(message: ToOtelExport): void {
  if (message.type === 'finish') {
    running?.stop();
    return;
  }
  const { options } = message;
  running = new SpanExport(options, openTurns(options), (progress) => tell({ progress }));
  running.run().then(
    () => process.exit(0),
    (thrown: unknown) => {
      process.stderr.write(`the export of spans ended: ${(thrown as Error).stack}\n`);
      process.exit(1);
    },
  );
}

// Processes that serve have priority over the process that exports.
setPriority(constants.priority.PRIORITY_LOW);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
process.on('message', take);
process.once('disconnect', () => process.exit(0));
new QuietWatch({ collects: true, trims: true });
