/** The allowed destinations of alert messages, and the mail server. Main thread. */
import { isIP } from 'node:net';
import { z } from 'zod';
import { splitList, type Values, type VariableTable } from './values.ts';

export interface AlertsConfig {
  /** Private networks that webhooks may be in, in CIDR notation. */
  readonly private_targets: readonly string[];
  /** null: alerts send no mail. */
  readonly mail: {
    /** Secret: never print. */
    readonly url: string;
    readonly from: string;
  } | null;
}

const NETWORKS_MAX = 64;
const EVERY_NETWORK = ['0.0.0.0/0', '::/0'];

const networks = z
  .string()
  .transform((text) => (text === 'all' ? EVERY_NETWORK : splitList(text).map(widen)))
  .refine((list) => list.length <= NETWORKS_MAX && list.every(isNetwork))
  .describe(
    `must be all, or up to ${NETWORKS_MAX} addresses and networks like 10.1.2.3 and 10.0.0.0/8, separated by commas`,
  );

/** Writes a single address in the form of a network. A network is returned unchanged. */
function widen(text: string): string {
  if (text.includes('/')) return text;
  return `${text}/${isIP(text) === 6 ? 128 : 32}`;
}

function isNetwork(text: string): boolean {
  const [, net = '', bits = ''] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? [];
  const version = isIP(net);
  return version !== 0 && Number(bits) <= (version === 6 ? 128 : 32);
}

const smtpUrl = z
  .string()
  .refine((text) => {
    if (!/^smtps?:\/\/[^\s/?#]+\/?$/i.test(text) || !URL.canParse(text)) return false;
    const { hostname, username, password } = new URL(text);
    return hostname !== '' && isPercentEncoded(username) && isPercentEncoded(password);
  })
  .describe(
    'must be smtp://HOST:PORT or smtps://HOST:PORT; a percent-encoded USER:PASSWORD@ may stand before HOST',
  );

function isPercentEncoded(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

const mailAddress = z
  .string()
  .regex(/^[^\s@<>,;"]{1,64}@[^\s@<>,;"]{1,190}$/)
  .describe('must be an e-mail address');

export const ALERT_VARIABLES = {
  ALERT_PRIVATE_TARGETS: [networks, undefined],
  ALERT_SMTP_URL: [smtpUrl, undefined],
  ALERT_MAIL_FROM: [mailAddress, 'understudy@localhost'],
} as const satisfies VariableTable;

export function readAlerts(v: Values<typeof ALERT_VARIABLES>): AlertsConfig {
  const url = v.ALERT_SMTP_URL;
  return Object.freeze({
    private_targets: Object.freeze(v.ALERT_PRIVATE_TARGETS ?? []),
    mail: url === null ? null : Object.freeze({ url, from: v.ALERT_MAIL_FROM }),
  });
}
