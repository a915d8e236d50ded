/** The error catalogue, and errors across thread boundaries and on the wire. */

import { describe, expect, it } from 'vitest';
import {
  CatalogueError,
  ERRORS,
  type ErrorCode,
  fromErrorData,
  toApiBody,
  toCatalogueError,
  toErrorData,
  toMessagesBody,
} from '../../src/errors.ts';

describe('the catalogue of errors', () => {
  it('has an error status and a text for every code, and only temporary errors are retryable', () => {
    for (const [code, { status, detail, retryable }] of Object.entries(ERRORS)) {
      expect(status, code).toBeGreaterThanOrEqual(400);
      expect(status, code).toBeLessThan(600);
      expect(detail, code).not.toBe('');
      if (retryable) expect([429, 502, 503], code).toContain(status);
    }
  });

  it('survives a thread boundary', () => {
    for (const code of Object.keys(ERRORS) as ErrorCode[]) {
      const back = fromErrorData(structuredClone(toErrorData(new CatalogueError(code, 'in other words'))));
      expect(back).toBeInstanceOf(CatalogueError);
      expect(back).toMatchObject({ code, message: 'in other words', ...pick(code) });
    }
  });

  it('turns unknown errors into internal ones, and hides their content from callers', () => {
    const cause = new TypeError('password is hunter2');
    const error = toCatalogueError(cause);
    expect(error).toMatchObject({ code: 'internal', status: 500, cause });
    expect(JSON.stringify([toErrorData(cause), toApiBody(error), toMessagesBody(error)])).not.toContain(
      'hunter2',
    );
    const passing = Object.assign(new Error('hunter2'), { retryable: true });
    expect(toCatalogueError(passing)).toMatchObject({ code: 'unavailable', cause: passing });
    expect(toApiBody(toCatalogueError(passing)).detail).not.toContain('hunter2');
    expect(fromErrorData({ code: 'toString', detail: 'x' })).toMatchObject({
      code: 'internal',
      message: 'x',
    });
  });

  it('has one format of the body for the API and one for the gateway', () => {
    const error = new CatalogueError('upstream_failed');
    expect(toApiBody(error)).toEqual({ detail: 'The upstream could not be reached' });
    expect(toMessagesBody(error)).toEqual({
      type: 'error',
      error: { type: 'api_error', message: 'The upstream could not be reached' },
    });
    expect(toMessagesBody(new CatalogueError('upgrade_required')).error.type).toBe('invalid_request_error');
    expect(toMessagesBody(new CatalogueError('cross_site')).error.type).toBe('permission_error');
  });
});

function pick(code: ErrorCode) {
  return { status: ERRORS[code].status, retryable: ERRORS[code].retryable };
}
