/** The engines behind the API. Main thread. */
import { z } from 'zod';
import { headerKey, type Values, type VariableTable } from './values.ts';

/** Keys for engines outside this process; the built-in engine needs none. */
const ENGINE_KEYS = ['VECTOR_STORE_API_KEY', 'AUTH_DB_SERVICE_KEY'] as const;

export interface EnginesConfig {
  /** The implementation of each engine; null: it is off. */
  readonly engines: {
    readonly vector_store: 'embedded:' | null;
    readonly accounts: 'embedded:' | 'postgres:' | null;
    readonly live_stream: 'embedded:' | null;
  };
  /** Address of the PostgreSQL database that several boxes share; null: this box has its own database. Secret. */
  readonly shared_database: string | null;
  /** Names of variables with keys for engines that are set but unused. */
  readonly unused_keys: readonly string[];
}

/** The address of an external engine is an error: the built-in engine, started in its place, would lack its data. */
const engine = z
  .literal('embedded:')
  .describe(
    'must be `embedded:`, which names the built-in engine, the only one so far; leave the variable unset for no engine',
  );

const POSTGRES = /^postgres(?:ql)?:\/\/[^\s/]/;

/** Checks the form of the address. `src/storage/postgres` reads all of it when the service starts. */
const accounts = z
  .string()
  .refine((text) => text === 'embedded:' || (POSTGRES.test(text) && URL.canParse(text)))
  .describe(
    'must be `embedded:`, which names the built-in engine, or postgres://USER:PASSWORD@HOST:PORT/DATABASE for a database that several boxes share; leave the variable unset for no accounts',
  );

export const ENGINE_VARIABLES = {
  VECTOR_STORE_URL: [engine, undefined],
  AUTH_DB_URL: [accounts, undefined],
  AUTH_DB_CONN_URL: [engine, undefined],
  VECTOR_STORE_API_KEY: [headerKey, undefined],
  AUTH_DB_SERVICE_KEY: [headerKey, undefined],
} as const satisfies VariableTable;

export function readEngines(v: Values<typeof ENGINE_VARIABLES>): EnginesConfig {
  const isShared = v.AUTH_DB_URL !== null && v.AUTH_DB_URL !== 'embedded:';
  return {
    shared_database: isShared ? v.AUTH_DB_URL : null,
    engines: Object.freeze({
      vector_store: v.VECTOR_STORE_URL,
      accounts: isShared ? 'postgres:' : v.AUTH_DB_URL === null ? null : 'embedded:',
      live_stream: v.AUTH_DB_CONN_URL,
    }),
    unused_keys: Object.freeze(ENGINE_KEYS.filter((name) => v[name] !== null)),
  };
}
