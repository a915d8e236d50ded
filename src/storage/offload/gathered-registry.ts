/**
 * Reads and writes the list of captures that were gathered from a bucket, with the local ids of each file. The bucket's
 * thread writes the list, and readers follow it. An exchange keeps its local id as long as the folder exists, so links
 * to the exchange stay valid. Capture reader, and its bucket thread.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { isGatewayName } from './offload-note.ts';

const range = z.object({
  /** Ids at the gateway. */
  first_id: z.int().positive(),
  last_id: z.int().positive(),
  /** Local id of the first exchange. */
  at: z.int().positive(),
});

const gatheredFile = range.extend({
  /** The file's folder in the bucket. */
  folder: z.string(),
  from_ms: z.number(),
  to_ms: z.number(),
});

const registrySchema = z.object({
  format: z.literal('understudy_gathered_v1'),
  /** Local id of the first exchange of the next new file. */
  next_id: z.int().positive(),
  /** Grows when files are replaced or removed. Cached results must then be read again. */
  changes: z.int().nonnegative(),
  gateways: z.array(
    z.object({
      gateway: z.string().refine(isGatewayName),
      /** When the gateway last wrote its list of files to the bucket. */
      sent_at: z.string(),
      files: z.array(gatheredFile),
      /**
       * The ids of the last files that were removed from the bucket (GONE_MAX in gathered-captures.ts), so that runs
       * that began in these files keep their names.
       */
      gone: z.array(range),
    }),
  ),
});

export type GatheredRegistry = z.output<typeof registrySchema>;
export type GatheredGateway = GatheredRegistry['gateways'][number];

export function registryPath(folder: string): string {
  return join(folder, 'gathered.json');
}

/** Returns the path of the local database with a gateway's captures. */
export function gatheredDb(folder: string, gateway: string): string {
  return join(folder, gateway, 'capture.mdb');
}

/**
 * Reads the registry of a folder.
 * @returns null if the folder has no registry, because nothing was gathered yet
 * @throws Error with a one-line message if the registry is damaged or of a newer version; a file system error
 */
export function readRegistry(folder: string): GatheredRegistry | null {
  const path = registryPath(folder);
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw thrown;
  }
  try {
    return registrySchema.parse(JSON.parse(text));
  } catch (cause) {
    throw new Error(`${path} is damaged, or of a newer version: remove ${folder}, which is made again`, {
      cause,
    });
  }
}

/** Replaces the registry of a folder. @throws a file system error */
export function writeRegistry(folder: string, registry: GatheredRegistry): void {
  const path = registryPath(folder);
  const partial = `${path}.${process.pid}.part`;
  writeFileSync(partial, JSON.stringify(registry), { mode: 0o600, flush: true });
  renameSync(partial, path);
}
