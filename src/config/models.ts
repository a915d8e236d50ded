/** Models that the service asks: one that writes patterns, one that embeds texts. Main thread. */
import { resolve } from 'node:path';
import { z } from 'zod';
import { MODEL_CHARACTERS } from '../limits.ts';
import { ConfigError } from './config-error.ts';
import { base, headerKey, path, secret, type Values, type VariableTable } from './values.ts';

/** The embedding service that is used if EMBEDDING_API_URL is unset. */
const EMBEDDING_API_BASE = 'https://api.openai.com/v1';

/** A model that writes patterns. Without one the extracted words stay. */
export interface DistillModelConfig {
  /** No trailing slash. */
  readonly url: string;
  readonly model: string;
  /** Secret, never print; '' for none. */
  readonly key: string;
}

export interface EmbeddingConfig {
  /** Folder of an ONNX export, absolute; null: not set, and the model that ships is used. */
  readonly model_dir: string | null;
  /** An OpenAI-compatible service instead of the model; null: none. */
  readonly remote: {
    /** No trailing slash. */
    readonly url: string;
    readonly model: string;
    /** Secret, never print; '' for none. */
    readonly key: string;
  } | null;
}

const modelName = z
  .string()
  .regex(/^\P{Cc}{1,200}$/u)
  .describe('must be 1 to 200 printable characters');

const embeddingModel = z
  .string()
  .max(MODEL_CHARACTERS)
  .regex(/^\P{Cc}+$/u)
  .describe(`must be 1 to ${MODEL_CHARACTERS} printable characters`);

export const MODEL_VARIABLES = {
  DISTILL_MODEL_URL: [base(), undefined],
  DISTILL_MODEL: [modelName, undefined],
  DISTILL_MODEL_KEY: [secret, undefined],
  EMBEDDING_MODEL_DIR: [path, undefined],
  EMBEDDING_API_KEY: [headerKey, undefined],
  EMBEDDING_API_URL: [base(), undefined],
  EMBEDDING_API_MODEL: [embeddingModel, 'text-embedding-3-small'],
} as const satisfies VariableTable;

/**
 * Makes the section of the model that writes patterns; null if neither service nor model is named.
 * @throws ConfigError when only one of the two is named
 */
export function readDistillModel(v: Values<typeof MODEL_VARIABLES>): DistillModelConfig | null {
  const { DISTILL_MODEL_URL: url, DISTILL_MODEL: model, DISTILL_MODEL_KEY: key } = v;
  if (url !== null && model !== null) return Object.freeze({ url, model, key: key ?? '' });
  if (url === null && model === null) return null;
  const [missing, given] =
    url === null ? ['DISTILL_MODEL_URL', 'DISTILL_MODEL'] : ['DISTILL_MODEL', 'DISTILL_MODEL_URL'];
  throw new ConfigError(missing, '', `${given} is set: set both or neither`);
}

/**
 * Makes the section of the model that embeds texts. Either a key or an address selects a remote service: for the
 * default service a key is enough, and a service of the operator may need no key.
 */
export function readEmbedding(v: Values<typeof MODEL_VARIABLES>): EmbeddingConfig {
  const { EMBEDDING_API_KEY: key, EMBEDDING_API_URL: url, EMBEDDING_API_MODEL: model } = v;
  const isRemote = key !== null || url !== null;
  return Object.freeze({
    model_dir: v.EMBEDDING_MODEL_DIR === null ? null : resolve(v.EMBEDDING_MODEL_DIR),
    remote: isRemote ? Object.freeze({ url: url ?? EMBEDDING_API_BASE, model, key: key ?? '' }) : null,
  });
}
