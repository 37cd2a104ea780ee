#include "distributor/scrape/places.h"

void dist_places_init(struct dist_places *places, unsigned max)
{
    *places = (struct dist_places){.max = max, .doubtful_max = FG_MAX(max / 4, 1)};
}

static struct dist_places_line *line_of(struct dist_places *places, const struct dist_place *place)
{
    return place->counted_doubtful ? &places->doubtful : &places->sound;
}

static void line_add(struct dist_places_line *line, struct dist_place *place)
{
    place->before = line->last;
    place->after = NULL;
    *(line->last == NULL ? &line->first : &line->last->after) = place;
    line->last = place;
    line->n++;
}

static void line_remove(struct dist_places_line *line, struct dist_place *place)
{
    *(place->before == NULL ? &line->first : &place->before->after) = place->after;
    *(place->after == NULL ? &line->last : &place->after->before) = place->before;
    line->n--;
}

static struct dist_place *next_in_line(const struct dist_places *places)
{
    if (places->taken == places->max)
        return NULL;
    if (places->sound.first != NULL)
        return places->sound.first;
    return places->doubtful_taken < places->doubtful_max ? places->doubtful.first : NULL;
}

static void serve(struct dist_places *places)
{
    struct dist_place *place;

    while ((place = next_in_line(places)) != NULL) {
        line_remove(line_of(places, place), place);
        place->waits = false;
        place->has = true;
        places->taken++;
        places->doubtful_taken += place->counted_doubtful;
        place->on_place(place);
    }
}

void dist_places_ask(struct dist_places *places, struct dist_place *place)
{
    fg_assert(!place->waits && !place->has);
    place->waits = true;
    place->counted_doubtful = place->doubtful;
    line_add(line_of(places, place), place);
    serve(places);
}

void dist_places_leave(struct dist_places *places, struct dist_place *place)
{
    if (place->waits)
        line_remove(line_of(places, place), place);
    if (place->has) {
        places->taken--;
        places->doubtful_taken -= place->counted_doubtful;
    }
    place->waits = place->has = false;
    serve(places);
}
