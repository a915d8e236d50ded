/** The variables in the help of the long-running commands, compared with the tables of the configuration. */
import { expect, it } from 'vitest';
import { ALERT_VARIABLES } from '../../src/config/alerts.ts';
import { API_VARIABLES } from '../../src/config/api.ts';
import { AUTH_VARIABLES } from '../../src/config/auth.ts';
import { BILLING_VARIABLES } from '../../src/config/billing.ts';
import { CAPTURE_VARIABLES } from '../../src/config/capture.ts';
import { ENGINE_VARIABLES } from '../../src/config/engines.ts';
import { GATEWAY_VARIABLES } from '../../src/config/gateway.ts';
import { MODEL_VARIABLES } from '../../src/config/models.ts';
import { OTEL_VARIABLES } from '../../src/config/otel.ts';
import { PROXY_VARIABLES } from '../../src/config/proxy.ts';
import { RELEGATION_VARIABLES } from '../../src/config/relegation.ts';
import { SERVICE_VARIABLES } from '../../src/config/service.ts';
import { runHere } from './here.ts';

/** FRONT_THREADS is the former name of SERVER_THREADS. */
const list = (...tables: object[]) =>
  tables.flatMap((table) => Object.keys(table)).filter((name) => name !== 'FRONT_THREADS');

/** The API also reads captures, from a bucket or from the folder of another process. */
const OF_CAPTURES = ['CAPTURE_READ_URL', 'CAPTURE_BUCKET_URL'];
const API = [
  ...list(ALERT_VARIABLES, API_VARIABLES, AUTH_VARIABLES, BILLING_VARIABLES, ENGINE_VARIABLES),
  ...list(MODEL_VARIABLES, SERVICE_VARIABLES),
  ...OF_CAPTURES,
];
/** A gateway without the API stores only captures. PUBLIC_URL is the default of ALLOWED_HOSTS. */
const GATEWAY = [
  ...list(CAPTURE_VARIABLES, GATEWAY_VARIABLES, OTEL_VARIABLES, PROXY_VARIABLES, RELEGATION_VARIABLES),
  ...list(SERVICE_VARIABLES).filter((name) => !/^RETENTION_DAYS_(?!CAPTURES)/.test(name)),
  'PUBLIC_URL',
].filter((name) => name !== 'CAPTURE_READ_URL');

it.each([
  ['up', [...API, ...GATEWAY]],
  ['serve', API],
  ['gateway', GATEWAY],
  ['proxy', GATEWAY],
])(
  'the help of understudy %s names the variables that the command reads, and no others',
  async (command, read) => {
    const { stdout } = await runHere([command, '--help']);
    const variables = stdout.slice(stdout.indexOf('Variables, with their defaults:')).split('\nExample')[0]!;
    const named = [...API, ...GATEWAY].filter((name) =>
      new RegExp(`(?<![A-Z_])${name}(?![A-Z_])`).test(variables),
    );
    expect([...new Set(named)].sort()).toEqual([...new Set(read)].sort());
  },
);
