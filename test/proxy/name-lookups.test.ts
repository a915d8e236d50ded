/** The queue for looking up names of blind tunnels, with a resolver that answers when the test says so. */
import { expect, it } from 'vitest';
import { type LookUp, NameLookups } from '../../src/proxy/name-lookups.ts';

function open() {
  const asked: string[] = [];
  const answers: ((error: Error | null) => void)[] = [];
  const lookUp: LookUp = (name, _options, callback) => {
    asked.push(name);
    answers.push((error) => callback(error, error === null ? [{ address: `of ${name}`, family: 4 }] : []));
  };
  return { asked, answers, lookups: new NameLookups(lookUp) };
}

const staying = new AbortController().signal;

it('the system looks up one name at a time, and once for all callers that wait for the name', async () => {
  const { asked, answers, lookups } = open();
  const found = ['slow', 'next', 'slow', 'next', 'last'].map((name) => lookups.find(name, staying));
  expect(asked).toEqual(['slow']);
  answers[0]!(null);
  expect(asked).toEqual(['slow', 'next']);
  const late = lookups.find('next', staying);
  answers[1]!(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' }));
  expect(asked).toEqual(['slow', 'next', 'last']);
  answers[2]!(null);
  await expect(found[0]).resolves.toEqual([{ address: 'of slow', family: 4 }]);
  await expect(found[2]).resolves.toEqual([{ address: 'of slow', family: 4 }]);
  for (const lookup of [found[1], found[3], late])
    await expect(lookup).rejects.toMatchObject({ code: 'ENOTFOUND' });
  await expect(found[4]).resolves.toEqual([{ address: 'of last', family: 4 }]);
  void lookups.find('slow', staying);
  expect(asked).toHaveLength(4);
});

it('names without a waiting caller are not looked up', () => {
  const { asked, answers, lookups } = open();
  const gone = new AbortController();
  void lookups.find('slow', staying);
  void lookups.find('left', gone.signal);
  void lookups.find('wanted', gone.signal);
  void lookups.find('wanted', staying);
  gone.abort();
  answers[0]!(null);
  expect(asked).toEqual(['slow', 'wanted']);
});
