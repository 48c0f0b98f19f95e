-- Adds up the cells of members over the steps of a rolling window.

-- Adds a cell to a row of sums and last values. Must be called in the order of the steps.
local function add_cell(rows, slot, cell)
  for c = 1, words do
    local own = cell[c][slot]
    if c <= columns and sums[c] and rows.present[slot] then own = own + rows.w[c][slot] end
    rows.w[c][slot] = own
  end
end

-- Replaces a row by a cell that is better. Must be called in the order of the steps, so that of
-- equal cells the earliest one stays.
local function keep_better(rows, slot, cell)
  local order = rows.present[slot] and 0 or -1
  for c = 1, columns do
    if order == 0 then order = cell[c][slot] - rows.w[c][slot] end
  end
  if order < 0 then
    for c = 1, words do rows.w[c][slot] = cell[c][slot] end
  end
end

-- Returns two lists with an item for each member: its form, made from its cells in the step `first`
-- and later steps, and its newest step. `first` is the oldest step by default. The form of a member
-- without cells is false.
local function forms_from_cells(rolling, names, first)
  local rows, cell, newest, forms = rows_of({}, words), {}, {}, {}
  local add = B.best and keep_better or add_cell
  for c = 1, words do cell[c] = {} end
  for step = first or rolling.oldest_step, rolling.running_step do
    local cells = fetch('HMGET', tally(rolling.name, step), names)
    for i = 1, #names do
      if cells[i] then
        decode_form(scored and tonumber(cells[i]) or cells[i], cell, i, words)
        add(rows, i, cell)
        rows.present[i], newest[i] = true, step
      end
    end
  end
  for i = 1, #names do forms[i] = rows.present[i] and encode_form(rows.w, i, words) or false end
  return forms, newest
end
