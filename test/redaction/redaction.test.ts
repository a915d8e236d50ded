/** Which values are secrets, and in which forms the search finds them. */
import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fallback } from '../../native/fallback.ts';
import { isCredentialName } from '../../src/redaction/credential-name.ts';
import { collectCredentials, credentialForms } from '../../src/redaction/credentials.ts';
import { isCredentialHeader } from '../../src/redaction/header-names.ts';
import { findKeyShapes } from '../../src/redaction/key-search.ts';
import { areFreeOfKeys, MASK, maskText, maskValue } from '../../src/redaction/mask.ts';
import { isSecretQueryName, maskEmbeddedQueries, maskQuery } from '../../src/redaction/query.ts';
import { parseExact } from '../../src/std/exact-json.ts';
import { drawsOf } from '../long-parts.ts';

/** Random characters of an alphabet. Keys in these tests are made at run time, so the source contains none. */
function letters(
  length: number,
  alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789',
): string {
  return [...randomBytes(length)].map((byte) => alphabet[byte % alphabet.length]).join('');
}

const UPPER = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
const b64url = (text: string): string => Buffer.from(text).toString('base64url');

const HEX = '0123456789abcdef';
const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/** Keys of services other than model providers. */
function makeServiceKeys(): Record<string, string> {
  return {
    vault: `hvs.${letters(92)}`,
    vault_batch: `hvb.${letters(140)}`,
    linear: `lin_api_${letters(40)}`,
    linear_oauth: `lin_oauth_${letters(64, HEX)}`,
    notion: `ntn_${letters(11, '0123456789')}${letters(35)}`,
    notion_old: `secret_aB3${letters(40)}`,
    digitalocean: `dop_v1_${letters(64, HEX)}`,
    digitalocean_oauth: `doo_v1_${letters(64, HEX)}`,
    digitalocean_refresh: `dor_v1_${letters(64, HEX)}`,
    shopify: `shpat_${letters(32, HEX)}`,
    pypi: `pypi-AgEIcHlwaS5vcmc${letters(120)}`,
    sendgrid: `SG.${letters(22)}.${letters(43)}`,
    databricks: `dapi${letters(32, HEX)}`,
    databricks_azure: `dapi${letters(32, HEX)}-2`,
    doppler: `dp.pt.${letters(43)}`,
    doppler_service: `dp.st.prd.${letters(43)}`,
    grafana: `glsa_${letters(32)}_${letters(8, HEX)}`,
    grafana_cloud: `glc_eyJvIjoiMTIzNDU2Iiwi${letters(90, BASE64)}==`,
    postman: `PMAK-${letters(24, HEX)}-${letters(34, HEX)}`,
    atlassian: `ATATT3xFfGF0${letters(170)}=${letters(8, HEX)}`,
    supabase: `sbp_${letters(40, HEX)}`,
    supabase_secret: `sb_secret_${letters(31)}`,
    fly: `fm2_lJPECAAAAAAAAAAA${letters(200, BASE64)}==`,
    fly_old: `fo1_${letters(43)}`,
    terraform: `${letters(14)}.atlasv1.${letters(67)}`,
    perplexity: `pplx-${letters(48)}`,
    replicate: `r8_${letters(37)}`,
    aws_session_token: `IQoJb3JpZ2luX2Vj${letters(500, BASE64)}==`,
    aws_session_token_old: `FwoGZXIvYXdzEBYaDHqa${letters(300, BASE64)}==`,
    google_oauth_secret: `GOCSPX-${letters(28)}`,
    pinecone: `pcsk_${letters(6)}_${letters(63)}`,
    together: `tgp_v1_${letters(43)}`,
    langsmith: `lsv2_pt_${letters(32, HEX)}_${letters(10, HEX)}`,
    new_relic: `NRAK-${letters(27, UPPER)}`,
    heroku: `HRKU-AA${letters(58)}`,
    brevo: `xkeysib-${letters(64, HEX)}-${letters(16)}`,
    sentry: `sntryu_${letters(64, HEX)}`,
    docker: `dckr_pat_${letters(27)}`,
    figma: `figd_${letters(40)}`,
    planetscale: `pscale_tkn_${letters(43)}`,
    e2b: `e2b_${letters(40, HEX)}`,
    tailscale: `tskey-auth-k${letters(11)}CNTRL-${letters(32)}`,
    rubygems: `rubygems_${letters(48, HEX)}`,
    cerebras: `csk-${letters(48, 'abcdefghijklmnopqrstuvwxyz0123456789')}`,
    elevenlabs: `sk_${letters(48, HEX)}`,
    dropbox: `sl.${letters(138)}`,
    mapbox: `sk.eyJ${letters(80)}.${letters(22)}`,
    dynatrace: `dt0c01.${letters(24, UPPER)}.${letters(64, UPPER)}`,
  };
}

/** One key of each kind. */
function makeKeys(): Record<string, string> {
  return {
    anthropic: `sk-ant-api03-${letters(93)}AA`,
    openai: `sk-${letters(48)}`,
    openai_project: `sk-proj-${letters(60)}_${letters(60)}`,
    openrouter: `sk-or-v1-${letters(64, '0123456789abcdef')}`,
    google: `AIza${letters(35)}`,
    aws_id: `AKIA${letters(16, UPPER)}`,
    aws_session_id: `ASIA${letters(16, UPPER)}`,
    bedrock: `ABSK${letters(100)}`,
    groq: `gsk_${letters(52)}`,
    xai: `xai-${letters(80)}`,
    hugging_face: `hf_${letters(34)}`,
    github: `ghp_${letters(36)}`,
    github_fine: `github_pat_${letters(22)}_${letters(59)}`,
    gitlab: `glpat-${letters(20)}`,
    slack: `xoxb-${letters(12, '0123456789')}-${letters(12, '0123456789')}-${letters(24)}`,
    own_live: `svc_live_${letters(36)}`,
    own_test: `svc_test_${letters(36)}`,
    npm: `npm_${letters(36)}`,
    stripe: `sk_live_${letters(24)}`,
    stripe_restricted: `rk_live_${letters(24)}`,
    stripe_webhook: `whsec_${letters(32)}`,
    ...makeServiceKeys(),
    jwt: `${b64url('{"alg":"HS256"}')}.${b64url(`{"sub":"${letters(20)}"}`)}.${letters(43)}`,
    bearer: `Bearer ${letters(40)}`,
  };
}

function maskBody(body: string): string {
  return maskText(body);
}

describe('credential headers', () => {
  it('are recognized by name and by ending', () => {
    for (const name of [
      'Authorization',
      'proxy-authorization',
      'X-API-Key',
      'api-key',
      'x-goog-api-key',
      'x-amz-security-token',
      'Cookie',
      'set-cookie',
      'x-acme-api-key',
      'ocp-apim-subscription-key',
      'x-vault-token',
      'private-token',
      'x-auth-token',
      'x-client-secret',
      'x-upstream-authorization',
      'x-password',
      'apikey',
      'x-csrftoken',
      'Authentication',
      'x-acme-authentication',
      'X-Session-Id',
      'x-sessionid',
      'x-session',
      'x-user-pat',
      'gitlab-pat',
    ])
      expect(isCredentialHeader(name), name).toBe(true);
    for (const name of [
      'content-type',
      'x-ratelimit-token',
      'x-ratelimit-remaining-tokens',
      'anthropic-ratelimit-tokens-limit',
      'x-amzn-bedrock-input-token-count',
      'x-usage-token',
      'idempotency-key',
      'etag',
      'request-id',
      'max-tokens',
      'session_id',
      'www-authenticate',
      'sec-websocket-key',
      'authority',
      'author',
      'x-tokenizer',
      'x-token-limit',
      // Ids with which agents number their runs.
      'session-id',
      'thread-id',
      'x-claude-code-session-id',
      'x-session-affinity',
      'authentication-info',
      'x-spat',
    ])
      expect(isCredentialHeader(name), name).toBe(false);
  });
});

describe('names of credentials', () => {
  it.each([
    'password',
    'Password',
    'dbPassword',
    'DB_PASSWORD',
    'PGPASSWORD',
    'password2',
    'pwd',
    'passwd',
    'userPasswd',
    'smtp_pass',
    'passphrase',
    'clientSecret',
    'client-secret',
    'client.secret',
    'WEBHOOK_SECRET',
    'secrets',
    'secret_value',
    'credentials',
    'apiKey',
    'APIKey',
    'api_keys',
    'apikey',
    'openaiApiKey',
    'OPENAI_API_KEY',
    'OPENAI_KEY',
    'x-api-key',
    'secretKey',
    'AWS_SECRET_ACCESS_KEY',
    'private_key',
    'sshKey',
    'token',
    'GITHUB_TOKEN',
    'accessToken',
    'accesstoken',
    'refresh_tokens',
    'auth_token_v2',
    'x-hub-signature',
    'authorization',
    'Cookie',
    'jwt',
  ])('%s is one', (name) => {
    expect(isCredentialName(name)).toBe(true);
  });

  it.each([
    '',
    'é',
    'max_tokens',
    'maxTokens',
    'max_token',
    'token_count',
    'tokenCount',
    'input_tokens',
    'total_tokens',
    'tokens',
    'tokens_per_second',
    'tokenizer',
    'token_type',
    'next_page_token',
    'nextPageToken',
    'pageToken',
    'pagetoken',
    'eos_token',
    'keyboard',
    'primary_key',
    'foreignKey',
    'public_key',
    'cache_key',
    'idempotency_key',
    'sort_key',
    'key',
    'keys',
    'key_id',
    'api_key_id',
    'monkey',
    'hotkey',
    'author',
    'authors',
    'authority',
    'authenticated',
    'secretary',
    'has_password',
    'password_policy',
    'pass',
    'passed',
    'tests_pass',
    'bypass',
    'compass',
    'signature',
    'function_signature',
    'cookie_banner',
    'session_id',
    'constructor',
    '__proto__',
  ])('%s is not a key', (name) => {
    expect(isCredentialName(name)).toBe(false);
  });

  it('are judged within the time limit of a test, also with 100,000 repeated parts', () => {
    for (const part of ['rate', 'limit', 'n', 'num', 'cont', 'A', 'aB', '_', '1', 'password'])
      expect(isCredentialName(`${part.repeat(100_000)}token!x`)).toBe(false);
  });
});

describe('values of JSON', () => {
  it('are masked completely under a credential’s name if they may be one, otherwise by their shape', () => {
    const key = `sk-ant-api03-${letters(40)}`;
    const sent = {
      password: 'x',
      empty: { password: '', pwd: null, secret: true },
      pin: { password: 1234, token: 7, max_tokens: 4096 },
      list: [{ clientSecret: 'a' }, { api_keys: ['b', 'c', { name: 'd' }] }, `run with ${key}`],
      [key]: 'named after a key',
      credentials: { user: 'ann', port: 5432, more: { deep: 'e' } },
      primary_key: 'id',
      key: 'value',
    };
    expect(maskValue(sent)).toEqual({
      password: MASK,
      empty: { password: '', pwd: null, secret: true },
      pin: { password: MASK, token: 7, max_tokens: 4096 },
      list: [{ clientSecret: MASK }, { api_keys: [MASK, MASK, { name: MASK }] }, `run with ${MASK}`],
      [MASK]: 'named after a key',
      credentials: { user: MASK, port: MASK, more: { deep: MASK } },
      primary_key: 'id',
      key: 'value',
    });
    const exact = parseExact('{"id":2512292042121000001,"pin":{"token":2512292042121000001}}');
    expect(JSON.stringify(maskValue(exact))).toBe(
      `{"id":2512292042121000001,"pin":{"token":2512292042121000001}}`,
    );
    const secret = parseExact('{"password":2512292042121000001}');
    expect(maskValue(secret)).toEqual({ password: MASK });
    const odd = maskValue(JSON.parse('{"__proto__":{"password":"x"}}'));
    expect(JSON.stringify(odd)).toBe(`{"__proto__":{"password":"${MASK}"}}`);
  });
});

describe('a query', () => {
  it('has its secret values masked with any spelling of their names, and nothing else', () => {
    const encode = fc.tuple(
      fc.constantFrom(
        'key',
        'access_token',
        'sig',
        'signature',
        'X-Amz-Signature',
        'X-Amz-Credential',
        'X-Amz-Security-Token',
      ),
      fc.array(fc.nat(3), { minLength: 20, maxLength: 20 }),
    );
    fc.assert(
      fc.property(encode, ([name, choices]) => {
        const written = [...name]
          .map((char, i) => {
            const hex = char.charCodeAt(0).toString(16);
            return [char, char.toUpperCase(), `%${hex}`, `%25${hex.toUpperCase()}`][
              choices[i % choices.length]!
            ]!;
          })
          .join('');
        expect(isSecretQueryName(written), written).toBe(true);
        expect(maskQuery(`a=1&${written}=s%20ecret&b=%6b`)).toBe(`a=1&${written}=${MASK}&b=%6b`);
      }),
    );
    expect(maskQuery('token=a&api_key=b&apikey=c&clientSecret=d&%70wd=e&accessToken=f')).toBe(
      `token=${MASK}&api_key=${MASK}&apikey=${MASK}&clientSecret=${MASK}&%70wd=${MASK}&accessToken=${MASK}`,
    );
    for (const query of [
      'pageToken=1&next_page_token=2',
      'max_tokens=5&primary_key=6',
      '',
      'alt=sse',
      'monkey=1&key',
      'keys=2',
      'key=',
      'q=key%3D1',
      '%zz=1&&;=&=x',
    ]) {
      expect(maskQuery(query)).toBe(query);
    }
    expect(maskEmbeddedQueries('https://h/p?alt=sse&key=abc#f')).toBe(`https://h/p?alt=sse&key=${MASK}#f`);
  });

  it('has its secrets masked in other text, too, however long a name is', () => {
    const encoded = [...'access_token'].map((char) => `%25${char.charCodeAt(0).toString(16)}`).join('');
    for (const name of [
      `${'x'.repeat(200)}_api_key`,
      encoded,
      'n'.repeat(1_100),
      `${'%2541'.repeat(40)}_secret`,
    ])
      for (const url of [`https://h/p?alt=sse&${name}=`, `https://h/p#a=b&${name}=`, `https://h/p#${name}=`])
        expect(maskEmbeddedQueries(`<${url}abc>; rel="next"`), url).toBe(`<${url}${MASK}>; rel="next"`);
    const harmless = `<https://h/p?${'page'.repeat(50)}=3#part=2>`;
    expect(maskEmbeddedQueries(harmless)).toBe(harmless);
    // A search that went back to the beginning at each sign would take minutes.
    const signs = `?${'x=x'.repeat(300_000)}`;
    expect(maskEmbeddedQueries(signs)).toBe(signs);
  });
});

describe('credentials of a request', () => {
  it('are extracted', () => {
    const pair = Buffer.from('user:päss-word', 'latin1').toString('base64');
    const found = collectCredentials(
      [
        'Authorization',
        `Basic ${pair}`,
        'x-api-key',
        'k-12345678',
        'cookie',
        'a=short; b=long-enough; c="quoted-one"',
        'accept',
        'not/a/secret',
      ],
      'key=query%2Dvalue&x=nothing-here',
    );
    for (const secret of [
      pair,
      'user:päss-word',
      'päss-word',
      'k-12345678',
      'long-enough',
      'quoted-one',
      'query%2Dvalue',
      'query-value',
    ]) {
      expect(found).toContain(secret);
    }
    expect(found.join(' ')).not.toMatch(/short|nothing|not\/a/);
  });

  it('are recognized in the forms in which they are echoed', () => {
    const secret = 'a"b/c&d<e>+=é f';
    const forms = credentialForms(secret);
    expect(forms).toContain(JSON.stringify(secret).slice(1, -1));
    expect(forms).toContain('a\\"b\\/c&d<e>+=é f');
    expect(forms).toContain('a%22b%2Fc%26d%3Ce%3E%2B%3D%E9%20f');
    expect(forms).toContain('a&quot;b/c&amp;d&lt;e&gt;+=é f');
    expect(forms).toContain(Buffer.from(secret, 'utf8').toString('latin1'));
  });
});

describe('key shapes', () => {
  it('are masked completely at any position', () => {
    const around: [string, string][] = [
      ['', ''],
      ['{"text":"', '"}'],
      ['key:\\n', '\\n'],
      ["export KEY='", "'\n"],
      ['k=', '&x=1'],
      ['(', ')'],
      ['\\u000a', ' '],
      ['%0A', '%0A'],
      ['"a\\\\n', '"'],
      ['**', '**'],
      ['x\t', '\t'],
      ['<td>', '</td>'],
    ];
    for (const [kind, key] of Object.entries(makeKeys())) {
      for (const [before, after] of around) {
        const masked = maskBody(`${before}${key}${after}`);
        const secret = kind === 'bearer' ? key.slice(7) : key;
        expect(masked, `${kind} in ${before}…${after}`).toBe(`${before}${key.replace(secret, MASK)}${after}`);
      }
    }
  });

  it('are found at every position of a long text', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...Object.values(makeKeys())),
        fc.nat(200),
        fc.nat(200),
        (key, before, after) => {
          const body = Buffer.from(
            `${'word '.repeat(before)}${' '.repeat(before % 17)}${key} ${'x y'.repeat(after)}`,
          );
          const [range] = findKeyShapes(body);
          expect(range).toBeDefined();
          expect(body.toString('latin1', range!.start, range!.end)).toBe(key.replace(/^Bearer /, ''));
        },
      ),
    );
  });

  it('include private keys, with real newlines and escaped ones, whole or cut off', () => {
    const lines = Array.from({ length: 25 }, () => letters(64));
    for (const newline of ['\n', '\r\n', '\\n', '\\\\n']) {
      const key = ['-----BEGIN RSA PRIVATE KEY-----', ...lines, '-----END RSA PRIVATE KEY-----'].join(
        newline,
      );
      expect(maskBody(`a ${key}${newline} b`)).toBe(`a ${MASK}${newline} b`);
      const cut = maskBody(`a ${key.slice(0, 900)}`);
      expect(cut).toBe(`a ${MASK}`);
    }
    const encrypted = `-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,${letters(32)}\n\n${lines.join('\n')}\n-----END RSA PRIVATE KEY-----`;
    expect(maskBody(encrypted)).toBe(MASK);
  });

  it('do not match ordinary text', () => {
    for (const text of [
      'risk-management-and-task-based-learning',
      'sk-learn is not scikit-learn-extra-package',
      'desk-top-computer-shop',
      'msg_01XFDUDYJgAACzvnptvVoYEL toolu_01A09q90qw90lq917835lq9',
      '3b241101-e2bb-4255-8caf-4136c566a962',
      '-----BEGIN PUBLIC KEY-----',
      'class="sk-fading-circle-container"',
      'the bearer of bad news was here today',
      'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
      'npm_config_registry_something_long_enough_here',
      'src/components/very-long-directory-name/index.ts',
      'eyJhbGciOiJIUzI1NiJ9 alone',
      'secret_manager_client_configuration secret_access_for_the_whole_organization_unit',
      'secret_aVeryLongNameThatSomebodyGaveToAFunctionOnce secret_0123456789abcdef0123456789abcdef0123456789a',
      'my_secret_aB3abcdefghijklmnopqrstuvwxyz0123456789ABCD',
      'dapi.databricks.example dapifications-of-the-whole-thing dapi0123456789abcdef0123456789abcdefghi',
      'sb_publishable_0123456789abcdefghijklmnopqrstu',
      'task_0123456789abcdef0123456789abcdef0123456789abcdef',
      's.getElementsByClassName2X s.isInitialAppRender2Enable',
      'lin_regression_model_coefficients_for_all_rows ntn_count_of_all_the_rows_in_here_and_there_0123456789',
      'fc_0123456789abcdef0123456789abcdef0123456789abcdef01 rs_0123456789abcdef0123456789abcdef0123456789abcdef01',
      'req_011CSHoEeqs5C35K2UUqR7Fy resp_0123456789abcdef0123456789abcdef0123456789abcdef01',
      'urls.0123456789abcdefghijklmnopqrstuvwxyz disk.eyJhbGciOiJIUzI1NiJ9 tcpdp.pt.0123456789',
      'tskey-is-not-one-of-them-at-all-really pscale_of_the_whole_measurement_series_of_today',
    ])
      expect(maskBody(text)).toBe(text);
  });

  it('include labelled secrets without a shape', () => {
    const secret = letters(40);
    expect(maskBody(`aws_secret_access_key = ${secret}\n`)).toBe(`aws_secret_access_key = ${MASK}\n`);
    expect(maskBody(`{"SecretAccessKey":"${secret}"}`)).toBe(`{"SecretAccessKey":"${MASK}"}`);
    expect(maskBody(`curl -H 'Authorization: Bearer ${secret}'`)).toBe(
      `curl -H 'Authorization: Bearer ${MASK}'`,
    );
    expect(maskBody(`https://b.s3/x?X-Amz-Security-Token=${secret}&y=1`)).toBe(
      `https://b.s3/x?X-Amz-Security-Token=${MASK}&y=1`,
    );
  });
});

describe('keys in other encodings', () => {
  const unicode = (text: string, which = /./g): string =>
    text.replace(which, (char) => `\\u00${char.charCodeAt(0).toString(16).padStart(2, '0')}`);
  const percent = (text: string, which = /./g): string =>
    text.replace(which, (char) => `%${char.charCodeAt(0).toString(16).padStart(2, '0').toUpperCase()}`);
  const WRITINGS: [string, (text: string) => string][] = [
    ['all of it as \\u00xx', (text) => unicode(text)],
    ['the marks as \\u00xx', (text) => unicode(text, /[^A-Za-z0-9]/g)],
    [
      'capitals as \\u00XX',
      (text) =>
        unicode(text, /[A-Z]/g).replace(/\\u..../g, (written) => `\\u${written.slice(2).toUpperCase()}`),
    ],
    ['within JSON within JSON', (text) => unicode(text, /[-_.]/g).replaceAll('\\', '\\\\')],
    ['all of it as %XX', (text) => percent(text)],
    ['the marks as %XX', (text) => percent(text, /[^A-Za-z0-9]/g)],
    ['as %25XX', (text) => percent(text, /[^A-Za-z0-9]/g).replaceAll('%', '%25')],
  ];

  it.each(WRITINGS)('are masked: %s', (_, write) => {
    for (const [kind, key] of Object.entries(makeKeys())) {
      if (kind === 'bearer') continue;
      const written = write(key);
      // Some keys have no punctuation, or no capitals.
      if (written === key) continue;
      for (const [before, after] of [
        ['', ''],
        ['{"text":"', '"}'],
        ['key: ', ' end'],
        ['a=1&x ', '&b'],
      ])
        expect(maskBody(`${before}${written}${after}`), kind).toBe(`${before}${MASK}${after}`);
      expect(areFreeOfKeys([`see ${written}`]), kind).toBe(false);
    }
  });

  it.each(['utf16le', 'utf16be'])('are masked in %s', (encoding) => {
    for (const [kind, key] of Object.entries(makeKeys())) {
      if (kind === 'bearer') continue;
      const text = Buffer.from(`\ufeff{"a":"b","text":"see ${key} here"}`, 'utf16le');
      const bytes = encoding === 'utf16le' ? text : text.swap16();
      const masked = maskText(bytes.toString('latin1'));
      expect(masked, kind).toContain(MASK);
      const left = Buffer.from(masked, 'latin1').toString('latin1').replaceAll('\0', '');
      expect(left.includes(key.slice(0, 8)), kind).toBe(false);
      expect(left.includes(key.slice(-8)), kind).toBe(false);
    }
  });

  it('are masked also after encoded labels', () => {
    const secret = `a1${letters(24)}`;
    expect(maskBody(`x?api_key%3D${secret}&y`)).toBe(`x?api_key%3D${MASK}&y`);
    expect(maskBody(`{"api_key":"${unicode(secret)}"}`)).toBe(`{"api_key":"${MASK}"}`);
  });

  it('are distinguished from ordinary escapes', () => {
    for (const text of [
      'caf\\u00e9 \\u2014 \\u003cb\\u003e https%3A%2F%2Fhost%2Fpath%3Fa%3D1%26b%3D2',
      'printf("%2d of %3d%%, %-20s")',
      '\0\0\0a\0b\0c\0\0',
      'a%2Db%2Dc \\u0041\\u0042 C:\\users\\u0041',
    ])
      expect(maskBody(text)).toBe(text);
  });
});

describe('keys recognized by their name', () => {
  const secret = `a1${letters(24)}`;

  it.each([
    '{"api_key":"…"}',
    '{"OPENAI_API_KEY": "…"}',
    "{'apiKey': '…'}",
    '{"text":"{\\"api_key\\":\\"…\\"}"}',
    '{"text":"{\\\\\\"clientSecret\\\\\\": \\\\\\"…\\\\\\"}"}',
    '{"secret":"…"}',
    '{"webhook_secret":"…"}',
    '{"refreshToken" : "…"}',
    '{"type":"url","authorization_token":"…"}',
    '{"type":"mcp","authorization":"…"}',
    '{"text":"{\\"Authorization\\": \\"…\\"}"}',
    'OPENAI_API_KEY=…\n',
    'export STRIPE_SECRET="…"',
    'x-api-key: …\r\n',
    'api_key = …;',
    'https://host/path?api_key=…&page=2',
    'AccountName=a;AccountKey=…;Suffix=b',
  ])('include %s', (text) => {
    const body = `before ${text.replace('…', secret)} after`;
    const expected = `before ${text.replace('…', MASK)} after`;
    expect(maskBody(body)).toBe(expected);
    expect(areFreeOfKeys([body])).toBe(false);
    expect(areFreeOfKeys([body], fallback)).toBe(false);
    expect(findKeyShapes(Buffer.from(body), 0, body.length, fallback)).toEqual(
      findKeyShapes(Buffer.from(body)),
    );
  });

  it.each([
    'apiKey: process.env.ANTHROPIC_API_KEY',
    'api_key=settings.providers.anthropicApiKey',
    '{"nextPageToken":"…"}',
    '{"next_token":"…"}',
    '{"primary_key":"…"}',
    '{"idempotency_key":"…"}',
    '{"key":"…"}',
    '{"token":"…"}',
    'the authorization: …',
    '{"authorization_url":"…"}',
    '{"password":"hunter2"}',
    '{"api_key":"short-1"}',
    '{"api_key":{"type":"string","description":"…"}}',
    'arn:aws:secretsmanager:us-east-1:123456789012:secret:…',
    'the api_key … is unknown',
    'CACHE_KEY=…',
  ])('do not include %s', (text) => {
    const body = `before ${text.replace('…', secret)} after`;
    expect(maskBody(body)).toBe(body);
  });
});

describe('texts that are free of keys', () => {
  const KEYS = [
    '{"api_key":"a1b2c3d4e5f6a7b8c9d0e1f2"}',
    'OPENAI_API_KEY=a1b2c3d4e5f6a7b8c9d0e1f2',
    'sk-ant-api03-abcdefghijkl',
    'Bearer abcdefghijklmnopqrstuvwxyz012345',
    'AKIAABCDEFGHIJKLMNOP',
    'ghp_abcdefghijklmnopqrstuv0123',
    'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.sig-natureABC',
    '-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\n-----END RSA PRIVATE KEY-----',
    'client_secret=abcdefghijklmnopqrstuvwxyz',
    'SG.abcdefghijklmnopqrst.abcdefghijklmnopqrst',
    'aws_secret_access_key: wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY',
  ];
  const piece = fc.oneof(
    fc.constantFrom(...KEYS),
    fc.constantFrom(...KEYS).chain((key) => fc.nat(key.length).map((at) => key.slice(0, at))),
    fc.constantFrom(
      ' ',
      '\n',
      '.',
      '=',
      'plain words',
      'a-name-with-many-letters',
      'é',
      '日本',
      '\ud800',
      '/usr/lib',
    ),
    fc.string({ maxLength: 12 }),
  );
  const text = fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join(''));

  it.each([
    ['native or not', undefined],
    ['in TypeScript', fallback],
  ] as const)('are not changed, whole or cut anywhere (%s)', (_name, engine) => {
    fc.assert(
      fc.property(fc.array(text, { maxLength: 5 }), fc.nat(), fc.nat(), (texts, from, length) => {
        if (!areFreeOfKeys(texts, engine)) return;
        for (const item of texts) {
          expect(maskText(item)).toBe(item);
          const at = from % (item.length + 1);
          const part = item.slice(at, at + (length % (item.length + 1)));
          expect(maskText(part)).toBe(part);
        }
      }),
      drawsOf(2_000),
    );
  });

  it('do not include texts with a key, or texts that are too long', () => {
    expect(areFreeOfKeys(['src/main.ts', 'read the file', ''])).toBe(true);
    for (const key of KEYS) expect(areFreeOfKeys(['words', `so ${key}`, 'words'])).toBe(false);
    expect(areFreeOfKeys(['word '.repeat(2_000)])).toBe(false);
    expect(areFreeOfKeys(['word '.repeat(1_000), 'word '.repeat(1_000)])).toBe(false);
  });
});
