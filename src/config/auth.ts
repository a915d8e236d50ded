/** Who may call the API, and who may read what is captured. Main thread. */
import { z } from 'zod';
import { foldEmail } from '../domain/account.ts';
import { ConfigError } from './config-error.ts';
import { keys, secret, splitList, type Values, type VariableTable } from './values.ts';

/** Maximum number of addresses in OPERATORS. */
const OPERATORS_MAX = 1_000;

/** Value of AUTH_JWT_ISSUER or AUTH_JWT_AUDIENCE that accepts any claim. */
const ANY_CLAIM = 'any';

/** Secrets: never print. */
export interface AuthConfig {
  /** The operator's own keys. */
  readonly static_keys: readonly string[];
  /** The secret of tokens signed with HS256, as UTF-8 bytes; null: not set. */
  readonly jwt_secret: string | null;
  /** Address of the identity provider's public keys; null: unset. Takes precedence over `jwt_secret`. */
  readonly jwks_url: string | null;
  /**
   * Required issuer or audience of a token; null: any. With `jwks_url` it is null only if the operator wrote
   * `any`, because the publisher also signs tokens of other applications with its keys.
   */
  readonly jwt_issuer: string | null;
  readonly jwt_audience: string | null;
}

/** Who may read what is captured, besides the terminal's link and the static keys. */
export interface OperatorsConfig {
  /** In the form of `foldEmail`. */
  readonly emails: readonly string[];
  /** The organization whose owners and admins may read captures; null: none. */
  readonly org: string | null;
}

const claim = z
  .string()
  .regex(/^\P{Cc}{1,1000}$/u)
  .describe('must be up to 1000 printable characters');

const jwksUrl = z
  .string()
  .refine((text) => /^https?:\/\//i.test(text) && URL.canParse(text))
  .describe('must be an http:// or https:// address');

const operators = z
  .string()
  .transform((text) => splitList(text).map(foldEmail))
  .refine((list) => list.length <= OPERATORS_MAX && list.every(isAddress))
  .describe(`must be up to ${OPERATORS_MAX} e-mail addresses, separated by commas`);

/** Checks only the form. An address without an account has no effect. */
function isAddress(text: string): boolean {
  return text.length <= 254 && /^[^\s@,]+@[^\s@,]+$/.test(text);
}

const organization = z
  .string()
  .regex(/^[\x21-\x7e]{1,128}$/)
  .describe('must be the id of an organization: 1 to 128 visible ASCII characters');

export const AUTH_VARIABLES = {
  SVC_KEYS: [keys, undefined],
  AUTH_JWT_SECRET: [secret, undefined],
  AUTH_JWKS_URL: [jwksUrl, undefined],
  AUTH_JWT_ISSUER: [claim, undefined],
  AUTH_JWT_AUDIENCE: [claim, undefined],
  OPERATORS: [operators, undefined],
  GW_ORG: [organization, undefined],
} as const satisfies VariableTable;

export function readAuth(v: Values<typeof AUTH_VARIABLES>): AuthConfig {
  return Object.freeze({
    static_keys: Object.freeze([...new Set(v.SVC_KEYS ?? [])]),
    jwt_secret: v.AUTH_JWT_SECRET,
    jwks_url: v.AUTH_JWKS_URL,
    ...readTokenClaims(v),
  });
}

export function readOperators(v: Values<typeof AUTH_VARIABLES>): OperatorsConfig {
  return Object.freeze({ emails: Object.freeze([...new Set(v.OPERATORS ?? [])]), org: v.GW_ORG });
}

/**
 * Reads the required issuer and audience of tokens; null for a claim that may have any value.
 * @throws ConfigError when the provider's keys are named without issuer or audience, because the same keys verify the
 *   tokens of every application of the provider
 */
function readTokenClaims(v: Values<typeof AUTH_VARIABLES>): Pick<AuthConfig, 'jwt_issuer' | 'jwt_audience'> {
  const { AUTH_JWKS_URL: url, AUTH_JWT_ISSUER: issuer, AUTH_JWT_AUDIENCE: audience } = v;
  const needed = (name: string, claim: string) =>
    new ConfigError(
      name,
      '',
      `AUTH_JWKS_URL is set: set ${name} to the \`${claim}\` that tokens must have, or to ${ANY_CLAIM}`,
    );
  if (url !== null && issuer === null) throw needed('AUTH_JWT_ISSUER', 'iss');
  if (url !== null && audience === null) throw needed('AUTH_JWT_AUDIENCE', 'aud');
  return {
    jwt_issuer: issuer === ANY_CLAIM ? null : issuer,
    jwt_audience: audience === ANY_CLAIM ? null : audience,
  };
}
