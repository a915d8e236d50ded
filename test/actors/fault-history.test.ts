/** When a capture file is set aside, and how long the capture process's next start waits. */
import { describe, expect, it } from 'vitest';
import {
  CAPTURE_CALM_MS,
  CAPTURE_RESTART_MS,
  FaultHistory,
} from '../../actors/capture-writer/fault-history.ts';

describe('the history of faults', () => {
  it('blames the file for two ends in a row, then what is about to be sealed too, then nothing more', () => {
    const history = new FaultHistory();
    const dues: string[] = [];
    for (let end = 0; end < 8; end++) {
      history.noteEnd(true, end);
      dues.push(history.due);
      history.noteOpened();
    }
    expect(dues).toEqual(['none', 'live', 'none', 'all', 'none', 'none', 'none', 'none']);
  });

  it('blames one file after the other as long as each has stored something', () => {
    const history = new FaultHistory();
    const dues: string[] = [];
    for (let file = 0; file < 4; file++) {
      history.noteStored();
      for (const at of [0, 1]) history.noteDamage(file + at);
      dues.push(history.due);
      history.noteOpened();
    }
    expect(dues).toEqual(['live', 'all', 'all', 'all']);
    for (const at of [10, 11]) expect(history.noteDamage(at)).toBe(false);
  });

  it('keeps what is due until a process has done it', () => {
    const history = new FaultHistory();
    history.noteEnd(true, 0);
    history.noteEnd(true, 1);
    history.noteEnd(false, 2);
    expect(history.due).toBe('live');
  });

  it('blames it for three ends in all, though something was stored between them', () => {
    const history = new FaultHistory();
    for (const at of [0, 1, 2]) {
      expect(history.due).toBe('none');
      history.noteEnd(true, at);
      history.noteStored();
    }
    expect(history.due).toBe('live');
  });

  it('blames it for ends that come seldom not at all', () => {
    const history = new FaultHistory();
    for (let end = 0; end < 20; end++) {
      history.noteEnd(true, end * CAPTURE_CALM_MS);
      history.noteStored();
      expect(history.pause_ms).toBe(CAPTURE_RESTART_MS.first);
    }
    expect(history.due).toBe('none');
  });

  it('blames no part for the fault of another', () => {
    const history = new FaultHistory();
    for (let end = 0; end < 20; end++) history.noteEnd(false, end);
    expect(history.due).toBe('none');
    expect(history.pause_ms).toBe(CAPTURE_RESTART_MS.last);
  });

  it('takes two damaged pages in a row for damage, and one for none', () => {
    const history = new FaultHistory();
    expect(history.noteDamage(0)).toBe(false);
    history.noteStored();
    expect(history.noteDamage(1)).toBe(false);
    expect(history.noteDamage(2)).toBe(true);
    expect(history.due).toBe('live');
  });
});
